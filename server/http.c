/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include "request.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 4096
#define BACKLOG         512
#define HEADER_BYTES    32768 /* of a request, and what its connection needs besides */

pn_status http_error(pn_error *err, const char *fmt, ...) {
    va_list args;
    *err = (pn_error){.code = PN_ERR_IO, .position = PN_NO_POSITION};
    va_start(args, fmt);
    vsnprintf(err->message, sizeof err->message, fmt, args);
    va_end(args);
    return PN_ERR_IO;
}

/* ---- listening ---- */

static int open_socket(const struct addrinfo *a) {
    const int on = 1,
              fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static int port_of(int fd) {
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0) return 0;
    return address.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&address)->sin6_port)
                                         : ntohs(((struct sockaddr_in *)&address)->sin_port);
}

pn_status http_listen(server *s, pn_error *err) {
    char port[8];
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    snprintf(port, sizeof port, "%d", s->options.port);
    const int failed = getaddrinfo(s->options.host, port, &hints, &list);
    if (failed != 0) return http_error(err, "cannot listen at %s: %s", s->options.host, gai_strerror(failed));
    s->listener = -1;
    for (const struct addrinfo *a = list; a != NULL && s->listener < 0; a = a->ai_next)
        s->listener = open_socket(a);
    const int error = errno;
    freeaddrinfo(list);
    if (s->listener < 0)
        return http_error(err, "cannot listen at %s port %d: %s", s->options.host, s->options.port,
                          strerror(error));
    s->port = port_of(s->listener);
    return PN_OK;
}

/* ---- libmicrohttpd's callbacks ---- */

static void on_connection(void *user, struct MHD_Connection *c, void **context,
                          enum MHD_ConnectionNotificationCode code) {
    server *s = user;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        *context = info != NULL ? watch_add(&s->watch, info->connect_fd) : NULL;
    } else {
        watch_remove(&s->watch, *context);
        *context = NULL;
    }
}

static request *new_request(server *s, struct MHD_Connection *c) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    request *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    r->server = s;
    r->connection = c;
    r->watched = info != NULL ? info->socket_context : NULL;
    return r;
}

/* Called for the header, for every piece of the body, at its end, and whenever the connection wakes without
 * an answer. */
static enum MHD_Result on_request(void *user, struct MHD_Connection *c, const char *url, const char *method,
                                  const char *version, const char *data, size_t *len, void **context) {
    request *r = *context;
    (void)version;
    if (r == NULL) {
        r = *context = new_request(user, c);
        if (r == NULL) return MHD_NO;
        request_begin(r, method, url);
        /* A client that asks first need not send in vain. */
        if (r->error.status != 0 &&
            MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) != NULL)
            return request_proceed(r) ? MHD_YES : MHD_NO;
        return MHD_YES;
    }
    if (*len > 0) {
        request_receive(r, data, *len);
        *len = 0;
        return MHD_YES;
    }
    return request_proceed(r) ? MHD_YES : MHD_NO;
}

static void on_completed(void *user, struct MHD_Connection *c, void **context,
                         enum MHD_RequestTerminationCode code) {
    (void)user;
    (void)c;
    (void)code;
    if (*context != NULL) request_end(*context);
    *context = NULL;
}

/* ---- start and stop ---- */

/* Connections are files: as many as this process may have, but for some that it needs itself. */
static unsigned most_connections(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < CONNECTIONS_MAX + 64 ? limit.rlim_max : CONNECTIONS_MAX + 64;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur > CONNECTIONS_MAX + 64 ? CONNECTIONS_MAX
           : limit.rlim_cur > 128                ? (unsigned)limit.rlim_cur - 64
                                                 : 64;
}

pn_status http_start(server *s, pn_error *err) {
    s->daemon = MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request,
        s, MHD_OPTION_LISTEN_SOCKET, s->listener, MHD_OPTION_CONNECTION_LIMIT, most_connections(),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)s->options.timeout, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, MHD_OPTION_END);
    if (s->daemon == NULL) return http_error(err, "the HTTP server cannot be started: %s", strerror(errno));
    return PN_OK;
}

void http_stop(server *s) {
    if (s->daemon != NULL)
        MHD_stop_daemon(s->daemon); /* which closes the listener */
    else if (s->listener >= 0)
        close(s->listener);
    s->daemon = NULL;
    s->listener = -1;
}
