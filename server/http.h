/* SPDX-License-Identifier: Apache-2.0 */
/* The side of HTTP: a socket to listen at, and libmicrohttpd with one thread. */
#ifndef SERVER_HTTP_H
#define SERVER_HTTP_H

#include "state.h"

/* Sets s->listener and s->port. PN_ERR_IO. */
pn_status http_listen(server *s, pn_error *err);
/* Begins to answer. PN_ERR_IO. */
pn_status http_start(server *s, pn_error *err);
/* All jobs have ended. */
void http_stop(server *s);

/* Fills in an error of code PN_ERR_IO. */
pn_status http_error(pn_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
