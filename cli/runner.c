/* SPDX-License-Identifier: Apache-2.0 */
#include "runner.h"

#include "common.h"
#include "json_out.h"
#include "term.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

/* Of what went otherwise than one would think: the progress line makes room for it. */
static void on_note(void *user, const char *message) {
    (void)user;
    if (term_is_tty(stderr)) fputs("\r\033[K", stderr);
    cli_warn("%s", message);
}

int runner_open(runner *r, const char *path) {
    pn_error err = {0};
    bool tty = term_is_tty(stderr);
    if (tty) fprintf(stderr, "loading %s", path);
    double begin = cli_now();
    r->model_options.on_note = on_note;
    pn_memory_set_budget(r->memory_budget > 0 ? r->memory_budget : pn_memory_default_budget());
    pn_status status = pn_model_open(path, &r->model_options, &r->model, &err);
    if (tty) fputs("\r\033[K", stderr);
    if (status != PN_OK) return cli_fail(&err);
    r->path = path;
    r->load_seconds = cli_now() - begin;
    pn_model_get_info(r->model, &r->info);
    return CLI_OK;
}

const char *runner_name(const runner *r) {
    return r->info.name != NULL && r->info.name[0] != '\0' ? r->info.name : cli_file_name(r->path);
}

const char *runner_threads(const runner *r, char text[RUNNER_THREADS_MAX]) {
    int n = r->info.n_threads, n_decode = r->info.n_threads_decode;
    int len = snprintf(text, RUNNER_THREADS_MAX, "%d %s", n, n == 1 ? "thread" : "threads");
    if (n_decode != n) snprintf(text + len, RUNNER_THREADS_MAX - (size_t)len, " (%d to decode)", n_decode);
    return text;
}

const char *runner_precision_name(pn_precision precision) {
    static const char *const names[] = {
        [PN_PRECISION_HIGH] = "high", [PN_PRECISION_EXACT] = "exact", [PN_PRECISION_FAST] = "fast"};
    return names[precision];
}

const char *runner_kv_type_name(pn_kv_type type) {
    static const char *const names[] = {[PN_KV_F16] = "f16",
                                        [PN_KV_F32] = "f32",
                                        [PN_KV_Q8] = "q8",
                                        [PN_KV_Q4] = "q4",
                                        [PN_KV_K8V4] = "k8v4"};
    return names[type];
}

static void print_plan(const runner *r, const pn_plan *plan) {
    char weights[TERM_BYTES_MAX], tables[TERM_BYTES_MAX], kv[TERM_BYTES_MAX], cache[TERM_BYTES_MAX],
        scratch[TERM_BYTES_MAX], total[TERM_BYTES_MAX], threads[RUNNER_THREADS_MAX];
    const char *name = runner_name(r);
    fputs(term_dim(stderr), stderr);
    term_print_shortened(stderr, name, strlen(name), 40);
    fprintf(stderr,
            ": %s, %s; memory: weights %s + tables %s + KV at most %s (%d tokens) + prefix cache %s + ",
            runner_threads(r, threads), r->info.kernels, term_bytes(plan->weights_bytes, weights),
            term_bytes(plan->tables_bytes, tables), term_bytes(plan->kv_bytes, kv), plan->n_ctx,
            term_bytes(plan->prefix_cache_bytes, cache));
    fprintf(stderr, "scratch %s = %s%s\n", term_bytes(plan->scratch_bytes, scratch),
            term_bytes(plan->total_bytes, total), term_plain(stderr));
}

/* Where no context was asked for, it is what the budget leaves. */
static void warn_of_context(const runner *r, const pn_plan *plan) {
    char budget[TERM_BYTES_MAX];
    const pn_session_options *o = &r->session_options;
    const int usual = r->info.n_ctx_train < RUNNER_USUAL_CTX ? r->info.n_ctx_train : RUNNER_USUAL_CTX;
    if (o->n_ctx != 0 || o->tier != NULL || o->kv_bytes != 0 || plan->n_ctx >= usual) return;
    cli_warn("the memory budget of %s leaves a context of %d tokens; --kv-type q8 makes more of it",
             term_bytes(plan->budget_bytes, budget), plan->n_ctx);
}

char *runner_baked_path(const char *model_path) {
    return cli_format("%s.kv", model_path);
}

static void print_baked(const runner *r) {
    pn_session_stats stats;
    pn_session_get_stats(r->session, &stats);
    if (stats.n_baked == 0) return;
    fprintf(stderr, "%sbaked: %zu tokens of a text that begins so need not be computed, by ",
            term_dim(stderr), stats.n_baked);
    term_print_escaped(stderr, r->model_options.baked, strlen(r->model_options.baked));
    fprintf(stderr, "%s\n", term_plain(stderr));
}

int runner_start(runner *r, bool announce) {
    pn_error err = {0};
    pn_plan plan;
    pn_status status = pn_session_plan(r->model, &r->session_options, &plan, &err);
    if (status == PN_OK) {
        if (announce) print_plan(r, &plan);
        warn_of_context(r, &plan);
        r->planned_bytes = plan.total_bytes;
        r->budget_bytes = plan.budget_bytes;
        status = pn_session_create(r->model, &r->session_options, &r->session, &err);
        if (status == PN_OK && announce) print_baked(r);
    }
    return status == PN_OK ? CLI_OK : cli_fail(&err);
}

void runner_close(runner *r) {
    pn_session_free(r->session);
    pn_model_close(r->model);
    *r = (runner){0};
}

/* A signal handler reaches nothing but globals; the session is set only while an answer runs. */
static pn_session *volatile interruptible;

static void on_interrupt(int sig) {
    (void)sig;
    if (interruptible) pn_session_cancel(interruptible);
}

typedef struct stream {
    FILE *out; /* NULL: the text is only collected */
    bool tty;
    int write_errno;
    term_progress progress;
} stream;

static bool on_text(void *user, const char *text, size_t len) {
    stream *s = user;
    term_progress_end(&s->progress);
    if (s->out == NULL) return true;
    if (s->tty)
        term_print_answer(s->out, text, len);
    else
        fwrite(text, 1, len, s->out);
    if (fflush(s->out) == 0 && !ferror(s->out)) return true;
    s->write_errno = errno;
    return false;
}

static void on_prefill(void *user, size_t n_done, size_t n_total) {
    term_progress_update(&((stream *)user)->progress, n_done, n_total);
}

pn_status runner_answer(runner *r, const pn_tokens *prompt, const pn_generate_options *options, FILE *out,
                        bool once, pn_generate_result *result, pn_error *err) {
    stream s = {.out = out, .tty = out != NULL && term_is_tty(out)};
    pn_generate_options streaming = *options;
    streaming.on_text = on_text;
    streaming.on_prefill = on_prefill;
    streaming.user = &s;
    struct sigaction old, handler = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    if (once) handler.sa_flags |= (int)SA_RESETHAND;
    sigemptyset(&handler.sa_mask);

    interruptible = r->session;
    sigaction(SIGINT, &handler, &old);
    term_progress_begin(&s.progress, "reading the prompt");
    pn_status status = pn_generate(r->session, prompt->ids, prompt->n, &streaming, result, err);
    interruptible = NULL;
    sigaction(SIGINT, &old, NULL);
    term_progress_end(&s.progress);

    if (s.write_errno != 0 && status == PN_OK) {
        pn_generate_result_free(result);
        *err = (pn_error){.code = PN_ERR_IO, .position = PN_NO_POSITION};
        snprintf(err->message, sizeof err->message, "cannot write the answer: %s", strerror(s.write_errno));
        status = PN_ERR_IO;
    }
    return status;
}

static void note_cut(const runner *r, const pn_generate_result *result) {
    pn_session_stats stats;
    pn_session_get_stats(r->session, &stats);
    fprintf(stderr,
            "(the context of %d tokens is full: tokens %zu to %zu were cut out, the model sees them no more)",
            stats.n_ctx, result->cut_from + 1, result->cut_to);
}

void runner_note_pressure(const runner *r, const pn_generate_result *result) {
    if (result->n_slides == 0 && result->n_step_downs == 0) return;
    fflush(stdout);
    fputs(term_dim(stderr), stderr);
    if (result->n_slides > 0) note_cut(r, result);
    if (result->n_slides > 0 && result->n_step_downs > 0) fputc('\n', stderr);
    if (result->n_step_downs > 0)
        fprintf(stderr,
                "(the quota of keys and values is used up: those of the first %zu tokens were packed to %s)",
                result->n_stepped, runner_kv_type_name(result->kv_type));
    fprintf(stderr, "%s\n", term_plain(stderr));
}

/* The session knows what windows and disk had, the messages know why a text departs. A slide in the middle of
   the answer is a sync of its own, which is not the one that was explained. */
static pn_cache_cause cause_of(const pn_session_stats *stats, const pn_cache_explanation *why,
                               const pn_generate_result *result) {
    const bool known = why->n_prompt > 0 && (result->n_slides > 0 || stats->cache_cause == PN_CACHE_CHANGED);
    return known ? why->cause : stats->cache_cause;
}

static size_t n_recomputed(const pn_session_stats *stats, const pn_generate_result *result) {
    return result->n_slides > 0 ? 0 : stats->n_recomputed;
}

void runner_print_cache(const runner *r, const pn_cache_explanation *why, const pn_generate_result *result) {
    pn_session_stats stats;
    pn_session_get_stats(r->session, &stats);
    const pn_cache_cause cause = cause_of(&stats, why, result);
    fflush(stdout);
    fprintf(stderr, "%scache    %zu of %zu tokens reused; %s; %zu computed again, %.0f ms\n",
            term_dim(stderr), result->n_reused, result->n_prompt, pn_cache_cause_name(cause),
            n_recomputed(&stats, result), result->n_slides > 0 ? 0 : stats.recomputed_seconds * 1e3);
    if (why->n_prompt > 0 && cause == why->cause && (why->old_text[0] || why->new_text[0])) {
        fprintf(stderr, "cache    from token %zu on, in ", why->n_common);
        if (why->field != NULL)
            fprintf(stderr, "message %d (%s), %s: ", why->message, why->role, why->field);
        else
            fprintf(stderr, "the template's text after message %d: ", why->message);
        term_print_shortened(stderr, why->old_text, strlen(why->old_text), 40);
        fputs(" became ", stderr);
        term_print_shortened(stderr, why->new_text, strlen(why->new_text), 40);
        fputc('\n', stderr);
    }
    fputs(term_plain(stderr), stderr);
}

json_t *runner_cache_json(const runner *r, const pn_cache_explanation *why,
                          const pn_generate_result *result) {
    pn_session_stats stats;
    pn_session_get_stats(r->session, &stats);
    return json_need(json_pack("{s:s, s:I, s:I, s:f, s:I, s:i, s:s, s:s?, s:o, s:o}", "cause",
                               pn_cache_cause_name(cause_of(&stats, why, result)), "reused_tokens",
                               (json_int_t)result->n_reused, "recomputed_tokens",
                               (json_int_t)n_recomputed(&stats, result), "recomputed_ms",
                               result->n_slides > 0 ? 0.0 : stats.recomputed_seconds * 1e3, "common_tokens",
                               (json_int_t)why->n_common, "message", why->message, "role", why->role, "field",
                               why->field, "old_text", json_from_text(why->old_text, strlen(why->old_text)),
                               "new_text", json_from_text(why->new_text, strlen(why->new_text))));
}

static double rate(size_t n, double seconds) {
    return seconds > 0 ? (double)n / seconds : 0;
}

double runner_prefill_rate(const pn_generate_result *result) {
    return rate(result->n_prefilled, result->prefill_seconds);
}

double runner_decode_rate(const pn_generate_result *result) {
    return result->tokens.n > 1 ? rate(result->tokens.n - 1, result->decode_seconds) : 0;
}

runner_memory runner_measure_memory(void) {
    runner_memory memory;
    struct rusage usage;
    pn_memory_get_use(NULL, &memory.peak);
    getrusage(RUSAGE_SELF, &usage);
    memory.peak_rss = (uint64_t)usage.ru_maxrss * 1024;
    return memory;
}

void runner_add_memory(const runner *r, const runner_memory *m, json_t *object) {
    json_t *more = json_need(
        json_pack("{s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I}, s:I}", "budget_bytes", (json_int_t)r->budget_bytes,
                  "planned_bytes", (json_int_t)r->planned_bytes, "peak_bytes", (json_int_t)m->peak.total,
                  "peaks", "weights_bytes", (json_int_t)m->peak.weights, "kv_bytes", (json_int_t)m->peak.kv,
                  "scratch_bytes", (json_int_t)m->peak.scratch, "tables_bytes", (json_int_t)m->peak.tables,
                  "peak_rss_bytes", (json_int_t)m->peak_rss));
    json_object_update(object, more);
    json_decref(more);
}

void runner_print_budget(FILE *to, const runner *r, const runner_memory *m) {
    char planned[TERM_BYTES_MAX], held[TERM_BYTES_MAX], rss[TERM_BYTES_MAX], budget[TERM_BYTES_MAX];
    fprintf(to, "budget   %s planned, at most %s held, %s allowed; peak resident %s\n",
            term_bytes(r->planned_bytes, planned), term_bytes(m->peak.total, held),
            r->budget_bytes > 0 ? term_bytes(r->budget_bytes, budget) : "any size",
            term_bytes(m->peak_rss, rss));
}

void runner_print_stats(const runner *r, const pn_generate_result *result) {
    char weights[TERM_BYTES_MAX], tables[TERM_BYTES_MAX], kv[TERM_BYTES_MAX], cache[TERM_BYTES_MAX],
        pinned[TERM_BYTES_MAX], scratch[TERM_BYTES_MAX];
    pn_session_stats stats;
    pn_session_get_stats(r->session, &stats);
    fflush(stdout);
    fprintf(stderr, "%sload     %.0f ms\n", term_dim(stderr), r->load_seconds * 1e3);
    fprintf(stderr, "prefill  %zu tokens (%zu more reused", result->n_prefilled, result->n_reused);
    if (stats.n_restored > 0) fprintf(stderr, ", %zu of them from disk", stats.n_restored);
    fprintf(stderr, "), %.1f tok/s; first token after %.0f ms\n", runner_prefill_rate(result),
            result->ttft_seconds * 1e3);
    fprintf(stderr, "decode   %zu tokens, %.1f tok/s\n", result->tokens.n, runner_decode_rate(result));
    if (result->n_drafted > 0)
        fprintf(stderr, "lookup   %zu of %zu guessed tokens were right; it pays from %.1f per step on\n",
                result->n_accepted, result->n_drafted, result->lookup_break_even);
    fprintf(stderr, "context  %zu of %d tokens\n", stats.n_tokens, stats.n_ctx);
    fprintf(stderr, "memory   weights %s, tables %s, KV %s (%s), prefix cache %s, pinned %s, scratch %s\n",
            term_bytes(r->info.weights_bytes, weights), term_bytes(r->info.tables_bytes, tables),
            term_bytes(stats.kv_bytes, kv), runner_kv_type_name(stats.kv_type),
            term_bytes(stats.prefix_cache_bytes, cache), term_bytes(stats.pinned_bytes, pinned),
            term_bytes(stats.scratch_bytes, scratch));
    const runner_memory memory = runner_measure_memory();
    runner_print_budget(stderr, r, &memory);
    fprintf(stderr, "seed     %llu%s\n", (unsigned long long)result->seed, term_plain(stderr));
}

static const char *finish_name(pn_finish finish) {
    static const char *const names[] = {
        [PN_FINISH_STOP] = "stop", [PN_FINISH_LENGTH] = "length", [PN_FINISH_CANCELLED] = "cancelled"};
    return names[finish];
}

/* jansson's integers are signed: a seed past their end is given as text. */
static json_t *seed_json(uint64_t seed) {
    if (seed <= INT64_MAX) return json_integer((json_int_t)seed);
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    return json_string(digits);
}

json_t *runner_answer_json(const runner *r, const pn_generate_result *result) {
    const runner_memory held = runner_measure_memory();
    json_t *memory = json_need(json_object());
    runner_add_memory(r, &held, memory);
    const char *name = runner_name(r);
    pn_session_stats stats;
    pn_session_get_stats(r->session, &stats);
    return json_need(json_pack(
        "{s:o, s:s, s:{s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I}, s:{s:s, s:I, s:I}, s:o, s:{s:f, s:f, s:f, "
        "s:f}, "
        "s:{s:I, s:I, s:f}, "
        "s:o, s:s, s:o}",
        "text", json_from_text(result->text.data != NULL ? result->text.data : "", result->text.len),
        "finish_reason", finish_name(result->finish), "usage", "prompt_tokens", (json_int_t)result->n_prompt,
        "cached_tokens", (json_int_t)result->n_reused, "restored_tokens", (json_int_t)stats.n_restored,
        "completion_tokens", (json_int_t)result->tokens.n, "cut", "from", (json_int_t)result->cut_from, "to",
        (json_int_t)result->cut_to, "slides", (json_int_t)result->n_slides, "kv", "type",
        runner_kv_type_name(result->kv_type), "step_downs", (json_int_t)result->n_step_downs, "packed_tokens",
        (json_int_t)result->n_stepped, "seed", seed_json(result->seed), "timings", "load_ms",
        r->load_seconds * 1e3, "ttft_ms", result->ttft_seconds * 1e3, "prefill_tokens_per_s",
        runner_prefill_rate(result), "decode_tokens_per_s", runner_decode_rate(result), "lookup",
        "guessed_tokens", (json_int_t)result->n_drafted, "right_tokens", (json_int_t)result->n_accepted,
        "break_even", result->lookup_break_even, "model", json_from_text(name, strlen(name)), "precision",
        runner_precision_name(r->session_options.precision), "memory", memory));
}
