/* SPDX-License-Identifier: Apache-2.0 */
/* postern serve: a model behind HTTP. */
#include "command.h"
#include "common.h"
#include "conversation.h"
#include "kv_layers.h"
#include "paths.h"
#include "runner.h"
#include "server/server.h"
#include "term.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct serve_args {
    const char *host, *api_key_file, *model_name, *tier, *cache_dir, *baked, *kv_layers;
    cli_texts pin_system;
    int port, max_queue, timeout, n_sessions, n_ctx, n_threads, n_threads_decode, kv_type, precision, lookup,
        overflow;
    uint64_t max_body, memory_budget, kv_quota, prefix_cache, cache_dir_bytes;
    bool log_json;
} serve_args;

#define AT(field) offsetof(serve_args, field)

static const cli_option options[] = {
    {CLI_GROUP, .help = "service"},
    {CLI_TEXT, 0, "host", "ADDRESS", AT(host), 0, 0,
     "listen at ADDRESS (default: 127.0.0.1, which only this machine reaches; 0.0.0.0 or :: is every "
     "network)"},
    {CLI_INT, 0, "port", "N", AT(port), 0, 65535, "listen at port N; 0: one that is free, which is printed"},
    {CLI_TEXT, 0, "api-key-file", "FILE", AT(api_key_file), 0, 0,
     "only answer requests with one of the keys that FILE has, a line each"},
    {CLI_TEXT, 0, "model-name", "NAME", AT(model_name), 0, 0,
     "what clients see as the model's name (default: the file's, without .gguf)"},
    {CLI_TEXTS, 0, "pin-system", "TEXT|@FILE", AT(pin_system), 0, 0,
     "system message that is read before the first request comes, and kept in memory; may be repeated"},
    {CLI_INT, 0, "sessions", "N", AT(n_sessions), 1, 64,
     "most conversations that are kept as they are, where the memory budget has room for so many"},
    {CLI_INT, 0, "max-queue", "N", AT(max_queue), 1, 65536,
     "requests that may wait for those before; more are refused with 503"},
    {CLI_BYTES, 0, "max-body", "SIZE", AT(max_body), 0, 0, "largest body of a request (default: 4M)"},
    {CLI_INT, 0, "timeout", "SECONDS", AT(timeout), 1, 86400,
     "time in which the header of a request must have come, and again its body"},
    {CLI_ON, 0, "log-json", NULL, AT(log_json), 0, 0,
     "one JSON object per request on standard error, instead of text"},
    {CLI_GROUP, .help = "machine"},
    {CLI_INT, 0, "ctx", "N", AT(n_ctx), 1, INT_MAX,
     "most tokens of prompt and answer together (default: 4096, or less when the model was trained for "
     "less)"},
    {CLI_TEXT, 0, "tier", "NAME", AT(tier), 0, 0,
     "size of the context by name instead: short (4096 tokens) or long (all that the model was trained for); "
     "a request "
     "may name another"},
    {CLI_BYTES, 0, "memory-budget", "SIZE", AT(memory_budget), 0, 0, RUNNER_BUDGET_HELP},
    {CLI_INT, 0, "threads", "N", AT(n_threads), 1, 1024, RUNNER_THREADS_HELP},
    {CLI_INT, 0, "threads-decode", "N", AT(n_threads_decode), 1, 1024, RUNNER_THREADS_DECODE_HELP},
    {CLI_CHOICE, 0, "kv-type", RUNNER_KV_TYPES, AT(kv_type), 0, 0, RUNNER_KV_TYPES_HELP},
    {CLI_TEXT, 0, "kv-layers", "LIST", AT(kv_layers), 0, 0, KV_LAYERS_HELP},
    {CLI_BYTES, 0, "kv-quota", "SIZE", AT(kv_quota), 0, 0,
     "most memory for the keys and values of a session: when it is used up the older ones are packed to q8, "
     "then to q4"},
    {CLI_CHOICE, 0, "overflow", "error|slide", AT(overflow), 0, 0,
     "when the context is full: refuse and end (error, the default), or cut out the text between the system "
     "message and "
     "what was said last (slide); a request may say otherwise"},
    {CLI_BYTES, 0, "prefix-cache", "SIZE", AT(prefix_cache), 0, 0,
     "most memory for keys and values of texts that no session has any more (default: a quarter of a "
     "session's)"},
    {CLI_TEXT, 0, "cache-dir", "DIR", AT(cache_dir), 0, 0,
     "keep keys and values of what was said in DIR, so that the next start need not compute them again"},
    {CLI_BYTES, 0, "cache-dir-bytes", "SIZE", AT(cache_dir_bytes), 0, 0,
     "most that DIR may take (default: 1G); what was of no use for the longest time goes first"},
    {CLI_TEXT, 0, "baked", "FILE", AT(baked), 0, 0,
     "keys and values that `postern bake` wrote (default: MODEL.kv, where it is there)"},
    {CLI_CHOICE, 0, "precision", RUNNER_PRECISIONS, AT(precision), 0, 0, RUNNER_PRECISION_HELP},
    {CLI_CHOICE, 0, "lookup", "auto|off|on", AT(lookup), 0, 0,
     "guess tokens that stood in the text before and check several at once: while it pays (auto, the "
     "default), never, or "
     "always; the answer is the same"},
    {.kind = CLI_END},
};

static void set_defaults(void *args) {
    serve_args *a = args;
    a->host = "127.0.0.1";
    a->port = 8080;
    a->max_queue = 32;
    a->max_body = (uint64_t)4 << 20;
    a->timeout = 60;
    a->n_sessions = 4;
}

/* ---- keys ---- */

typedef struct key_list {
    cli_text file;
    const char **items;
    size_t n;
} key_list;

/* The lines of the file that are not empty; a '#' begins a comment. */
static int read_keys(const char *path, key_list *keys) {
    char *rest = NULL;
    int code = cli_read_source(path, &keys->file);
    if (code != CLI_OK) return code;
    for (char *line = strtok_r(keys->file.data, "\r\n", &rest); line != NULL;
         line = strtok_r(NULL, "\r\n", &rest)) {
        while (*line == ' ' || *line == '\t')
            line++;
        line[strcspn(line, " \t")] = '\0';
        if (*line == '\0' || *line == '#') continue;
        keys->items = cli_realloc(keys->items, keys->n + 1, sizeof *keys->items);
        keys->items[keys->n++] = line;
    }
    if (keys->n == 0)
        return cli_error(CLI_USAGE, "%s holds no API key: write one on a line of its own", path);
    return CLI_OK;
}

/* ---- signals ---- */

/* A signal handler reaches nothing but globals. */
static server *volatile signalled;

static void on_signal(int sig) {
    (void)sig;
    if (signalled != NULL) server_wake(signalled);
}

/* They wait while threads are started, which inherit that, so that this one alone takes them. */
static void hold_signals(bool hold) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void take_signals(server *s) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    signalled = s;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    hold_signals(false);
}

/* ---- serving ---- */

static bool is_loopback(const char *host) {
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0;
}

static void announce(const server *s, const serve_args *a) {
    if (!is_loopback(a->host) && a->api_key_file == NULL)
        cli_warn("whoever reaches %s may use the model: --api-key-file asks for a key", a->host);
    const bool v6 = strchr(a->host, ':') != NULL;
    fprintf(stderr, "postern: listening at http://%s%s%s:%d\n", v6 ? "[" : "", a->host, v6 ? "]" : "",
            server_port(s));
}

/* Until all is answered: the first signal asks for that, the second does not wait for it. */
static int attend(server *s, const serve_args *a) {
    bool loading = true, draining = false;
    for (;;) {
        switch (server_wait(s)) {
        case SERVER_READY:
            loading = false;
            announce(s, a);
            break;
        case SERVER_FAILED:
            return cli_fail(server_error(s));
        case SERVER_FINISHED:
            return CLI_OK;
        case SERVER_WAKEN:
            if (loading) _exit(CLI_OK); /* opening a model cannot be cut short, and nobody has a request */
            if (draining)
                server_cancel(s);
            else
                fputs("postern: answering what has come, then ending; a second signal ends at once\n",
                      stderr);
            server_drain(s);
            draining = true;
        }
    }
}

static void on_note(void *user, const char *message) {
    (void)user;
    cli_warn("%s", message);
}

/* The file's name without .gguf. For free(). */
static char *default_name(const char *path) {
    const char *name = cli_file_name(path);
    const size_t len = strlen(name), end = strlen(".gguf");
    const bool named = len > end && strcmp(name + len - end, ".gguf") == 0;
    return cli_format("%.*s", (int)(named ? len - end : len), name);
}

static server_options options_of(const serve_args *a, const char *path, const char *name, const char *baked,
                                 const key_list *keys) {
    return (server_options){
        .model_path = path,
        .model_name = name,
        .model = {.n_threads = a->n_threads,
                  .n_threads_decode = a->n_threads_decode,
                  .prefix_cache = a->prefix_cache,
                  .cache_dir = a->cache_dir,
                  .cache_dir_bytes = a->cache_dir_bytes,
                  .baked = baked,
                  .on_note = on_note},
        .session = {.n_ctx = a->n_ctx,
                    .tier = a->tier,
                    .kv_bytes = a->kv_quota,
                    .kv_type = (pn_kv_type)a->kv_type,
                    .precision = (pn_precision)a->precision,
                    .lookup = (pn_lookup_mode)a->lookup,
                    .overflow = (pn_overflow)a->overflow},
        .host = a->host,
        .port = a->port,
        .keys = keys->items,
        .n_keys = keys->n,
        .n_sessions = (size_t)a->n_sessions,
        .max_queue = (size_t)a->max_queue,
        .max_body = (size_t)a->max_body,
        .timeout = a->timeout,
        .log_json = a->log_json,
    };
}

/* As the messages of conversations. */
static int read_pinned(const cli_texts *given, char ***out) {
    int code = CLI_OK;
    *out = calloc(given->n + 1, sizeof **out);
    if (*out == NULL) return cli_error(CLI_LIMIT, "out of memory");
    for (size_t i = 0; i < given->n && code == CLI_OK; i++) {
        cli_text text = {0};
        conversation c;
        conversation_init(&c);
        code = cli_read_given(given->items[i], &text);
        conversation_set_system(&c, text.data, text.len);
        (*out)[i] = conversation_begin_json(&c);
        conversation_done(&c);
        cli_text_free(&text);
    }
    return code;
}

static void free_pinned(char **pinned, size_t n) {
    for (size_t i = 0; pinned != NULL && i < n; i++)
        free(pinned[i]);
    free(pinned);
}

static int serve(const char *path, const serve_args *a, const key_list *keys) {
    char *usual = runner_baked_path(path), *name = default_name(path);
    const char *baked = a->baked != NULL ? a->baked : access(usual, F_OK) == 0 ? usual : NULL;
    server_options o = options_of(a, path, a->model_name != NULL ? a->model_name : name, baked, keys);
    pn_error err = {0};
    server *s = NULL;
    kv_layers layers;
    o.model.session = &o.session;
    signal(SIGPIPE, SIG_IGN);
    pn_memory_set_budget(a->memory_budget > 0 ? a->memory_budget : pn_memory_default_budget());
    hold_signals(true);
    char **pinned;
    int code = read_pinned(&a->pin_system, &pinned);
    o.pinned = (const char *const *)pinned;
    o.n_pinned = a->pin_system.n;
    if (code == CLI_OK) code = kv_layers_set(&layers, a->kv_layers, &o.model);
    if (code == CLI_OK && server_start(&o, &s, &err) != PN_OK)
        code = cli_error(CLI_FAILED, "%s", err.message);
    if (code == CLI_OK) {
        take_signals(s);
        code = attend(s, a);
        signalled = NULL;
        server_stop(s);
    }
    free_pinned(pinned, a->pin_system.n);
    free(usual);
    free(name);
    return code;
}

static int run(void *args, const cli_texts *operands) {
    const serve_args *a = args;
    key_list keys = {0};
    if (a->tier != NULL && a->n_ctx != 0) return cli_error(CLI_USAGE, "--ctx and --tier exclude each other");
    if (a->cache_dir_bytes != 0 && a->cache_dir == NULL)
        return cli_error(CLI_USAGE, "--cache-dir-bytes needs --cache-dir DIR");
    if (a->max_body == 0) return cli_error(CLI_USAGE, "--max-body must be more than 0");
    char *path = operands->n > 0 ? cli_format("%s", operands->items[0]) : paths_default_model();
    if (path == NULL) return cli_error(CLI_USAGE, "neither XDG_CACHE_HOME nor HOME is set: name a model");
    int code = a->api_key_file != NULL ? read_keys(a->api_key_file, &keys) : CLI_OK;
    if (code == CLI_OK) code = serve(path, a, &keys);
    cli_text_free(&keys.file);
    free(keys.items);
    free(path);
    return code;
}

const cli_command cmd_serve = {
    .name = "serve",
    .operands = "[MODEL]",
    .max_operands = 1,
    .summary = "answer over HTTP, as OpenAI's API does",
    .description =
        "Serves MODEL, by default as of `postern run`, to clients of OpenAI's API: /v1/chat/completions, "
        "/v1/completions, /v1/models; of Anthropic's: /v1/messages; and /tokenize, /detokenize, /health, "
        "/metrics. One request is answered "
        "at a time. SIGTERM ends when all that has come is answered.",
    .options = options,
    .args_size = sizeof(serve_args),
    .set_defaults = set_defaults,
    .run = run,
};
