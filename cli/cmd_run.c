/* SPDX-License-Identifier: Apache-2.0 */
/* postern run: one answer, or a chat. */
#include "chat.h"
#include "command.h"
#include "common.h"
#include "json_out.h"
#include "kv_layers.h"
#include "paths.h"
#include "plan_page.h"
#include "term.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run_args {
    const char *prompt, *file, *system, *pin_system, *template_path;
    int64_t now;
    bool raw;
    int max_tokens;
    cli_texts stop;
    float temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int top_k, penalty_last_n;
    cli_biases logit_bias;
    cli_seed seed;
    const char *tier, *cache_dir, *baked, *kv_layers;
    uint64_t kv_quota, memory_budget, cache_dir_bytes;
    int n_ctx, n_threads, n_threads_decode, kv_type, precision, lookup, overflow;
    bool json, stats, explain_cache, verbose, plan;
} run_args;

#define AT(field) offsetof(run_args, field)

static const cli_option options[] = {
    {CLI_GROUP, .help = "prompt"},
    {CLI_TEXT, 'p', "prompt", "TEXT", AT(prompt), 0, 0, "answer TEXT and end; - reads standard input"},
    {CLI_TEXT, 'f', "file", "FILE", AT(file), 0, 0, "answer what FILE says and end; - reads standard input"},
    {CLI_TEXT, 0, "system", "TEXT|@FILE", AT(system), 0, 0, "system message, or the file that holds it"},
    {CLI_TEXT, 0, "pin-system", "TEXT|@FILE", AT(pin_system), 0, 0,
     "the same in a chat, read before the first message is asked for, and kept in memory for every "
     "conversation"},
    {CLI_ON, 0, "raw", NULL, AT(raw), 0, 0,
     "continue the prompt as plain text, without the chat template; text that spells a control token is that "
     "token"},
    {CLI_TEXT, 0, "template", "FILE", AT(template_path), 0, 0,
     "Jinja chat template to use instead of the model's"},
    {CLI_TIME, 0, "now", "DATE", AT(now), 0, 0, RUNNER_NOW_HELP},
    {CLI_GROUP, .help = "answer"},
    {CLI_INT, 'n', "max-tokens", "N", AT(max_tokens), 1, INT_MAX,
     "most tokens to generate (default: until the context is full)"},
    {CLI_TEXTS, 0, "stop", "TEXT", AT(stop), 0, 0, "end the answer where TEXT would begin; may be repeated"},
    {CLI_FLOAT, 0, "temp", "X", AT(temperature), 0, 100,
     "temperature, 0 to 100; 0 takes the likeliest token"},
    {CLI_INT, 0, "top-k", "N", AT(top_k), 0, INT_MAX, "draw from the N likeliest tokens; 0: off"},
    {CLI_FLOAT, 0, "top-p", "X", AT(top_p), 0, 1,
     "draw from the likeliest tokens that have X of the probability together, 0 to 1; 1: off"},
    {CLI_FLOAT, 0, "min-p", "X", AT(min_p), 0, 1,
     "drop tokens less likely than X times the likeliest, 0 to 1; 0: off"},
    {CLI_FLOAT, 0, "repeat-penalty", "X", AT(repeat_penalty), 1e-6, 100,
     "divide the logits of recent tokens, above 0 to 100; 1: off"},
    {CLI_FLOAT, 0, "presence-penalty", "X", AT(presence_penalty), -100, 100,
     "subtract from the logits of recent tokens, -100 to 100"},
    {CLI_FLOAT, 0, "frequency-penalty", "X", AT(frequency_penalty), -100, 100,
     "subtract once per recent occurrence, -100 to 100"},
    {CLI_INT, 0, "penalty-last-n", "N", AT(penalty_last_n), -1, INT_MAX,
     "how many tokens are recent for the penalties; -1: all"},
    {CLI_BIASES, 0, "logit-bias", "ID=BIAS[,...]", AT(logit_bias), 0, 0,
     "add BIAS to the logit of token ID; -inf bans it; may be repeated"},
    {CLI_SEED, 0, "seed", "N", AT(seed), 0, 0, "the same seed gives the same answer (default: a fresh one)"},
    {CLI_GROUP, .help = "machine"},
    {CLI_INT, 0, "ctx", "N", AT(n_ctx), 1, INT_MAX,
     "most tokens of prompt and answers together (default: 4096, or less when the model was trained for "
     "less)"},
    {CLI_TEXT, 0, "tier", "NAME", AT(tier), 0, 0,
     "size of the context by name instead: short (4096 tokens) or long (all that the model was trained for); "
     "in "
     "a chat /tier changes it"},
    {CLI_BYTES, 0, "memory-budget", "SIZE", AT(memory_budget), 0, 0, RUNNER_BUDGET_HELP},
    {CLI_ON, 0, "plan", NULL, AT(plan), 0, 0,
     "say what model and context would take beside the budget, and end, without reading the weights"},
    {CLI_INT, 0, "threads", "N", AT(n_threads), 1, 1024, RUNNER_THREADS_HELP},
    {CLI_INT, 0, "threads-decode", "N", AT(n_threads_decode), 1, 1024, RUNNER_THREADS_DECODE_HELP},
    {CLI_CHOICE, 0, "kv-type", RUNNER_KV_TYPES, AT(kv_type), 0, 0, RUNNER_KV_TYPES_HELP},
    {CLI_TEXT, 0, "kv-layers", "LIST", AT(kv_layers), 0, 0, KV_LAYERS_HELP},
    {CLI_BYTES, 0, "kv-quota", "SIZE", AT(kv_quota), 0, 0,
     "most memory for keys and values: when it is used up the older ones are packed to q8, then to q4; the "
     "context "
     "is no longer than fits then"},
    {CLI_CHOICE, 0, "overflow", "error|slide", AT(overflow), 0, 0,
     "when the context is full: refuse and end (error, the default), or cut out the text between the system "
     "message and what was said last, and say so (slide)"},
    {CLI_TEXT, 0, "cache-dir", "DIR", AT(cache_dir), 0, 0,
     "keep keys and values of what was said in DIR, so that the next run need not compute them again"},
    {CLI_BYTES, 0, "cache-dir-bytes", "SIZE", AT(cache_dir_bytes), 0, 0,
     "most that DIR may take (default: 1G); what was of no use for the longest time goes first"},
    {CLI_TEXT, 0, "baked", "FILE", AT(baked), 0, 0,
     "keys and values that `postern bake` wrote (default: MODEL.kv, where it is there)"},
    {CLI_CHOICE, 0, "precision", RUNNER_PRECISIONS, AT(precision), 0, 0, RUNNER_PRECISION_HELP},
    {CLI_CHOICE, 0, "lookup", "auto|off|on", AT(lookup), 0, 0,
     "guess tokens that stood in the text before and check several at once: while it pays (auto, the "
     "default), "
     "never, or always; the answer is the same"},
    {CLI_GROUP, .help = "output"},
    {CLI_ON, 0, "json", NULL, AT(json), 0, 0, "one JSON object with the text, the counts and the times"},
    {CLI_ON, 0, "stats", NULL, AT(stats), 0, 0,
     "times, speed and memory after the answer, on standard error"},
    {CLI_ON, 0, "explain-cache", NULL, AT(explain_cache), 0, 0,
     "say after each answer how much of its prompt was there already, and why not more"},
    {CLI_ON, 'v', "verbose", NULL, AT(verbose), 0, 0,
     "say model, threads and memory at the start also when standard error is no terminal"},
    {.kind = CLI_END},
};

static void set_defaults(void *args) {
    run_args *a = args;
    pn_sampling s = pn_sampling_default();
    a->temperature = s.temperature;
    a->top_k = s.top_k;
    a->top_p = s.top_p;
    a->min_p = s.min_p;
    a->repeat_penalty = s.repeat_penalty;
    a->presence_penalty = s.presence_penalty;
    a->frequency_penalty = s.frequency_penalty;
    a->penalty_last_n = s.penalty_last_n;
}

static pn_generate_options generate_options(const run_args *a) {
    return (pn_generate_options){
        .max_tokens = a->max_tokens,
        .sampling =
            {
                .temperature = a->temperature,
                .top_k = a->top_k,
                .top_p = a->top_p,
                .min_p = a->min_p,
                .repeat_penalty = a->repeat_penalty,
                .presence_penalty = a->presence_penalty,
                .frequency_penalty = a->frequency_penalty,
                .penalty_last_n = a->penalty_last_n,
                .logit_bias = a->logit_bias.items,
                .n_logit_bias = a->logit_bias.n,
                .seed = a->seed.value,
                .has_seed = a->seed.given,
            },
        .stop = a->stop.items,
        .n_stop = a->stop.n,
    };
}

/* What the files and options say, read before the model is opened so that mistakes show at once. */
typedef struct run_input {
    bool one_shot;
    cli_text prompt, system, template_source;
} run_input;

static void input_free(run_input *in) {
    cli_text_free(&in->prompt);
    cli_text_free(&in->system);
    cli_text_free(&in->template_source);
}

static int read_prompt(const run_args *a, run_input *in) {
    const char *path = a->file;
    if (a->prompt != NULL && strcmp(a->prompt, "-") != 0) {
        cli_text_append(&in->prompt, a->prompt, strlen(a->prompt));
        in->one_shot = true;
        return CLI_OK;
    }
    if (path == NULL && (a->prompt != NULL || !isatty(STDIN_FILENO))) path = "-";
    if (path == NULL) return CLI_OK;
    in->one_shot = true;
    int code = cli_read_file(path, &in->prompt);
    if (code == CLI_OK && !a->raw) cli_text_drop_bom(&in->prompt);
    /* A file's last line ends with a newline that is no part of a chat message; a text to continue is left as
     * is. */
    while (code == CLI_OK && !a->raw && in->prompt.len > 0 &&
           strchr("\r\n", in->prompt.data[in->prompt.len - 1]) != NULL)
        in->prompt.data[--in->prompt.len] = '\0';
    return code;
}

static int read_input(const run_args *a, run_input *in) {
    int code = read_prompt(a, in);
    const char *system = a->pin_system != NULL ? a->pin_system : a->system;
    if (code == CLI_OK && system != NULL) code = cli_read_given(system, &in->system);
    if (code == CLI_OK && a->template_path != NULL)
        code = cli_read_source(a->template_path, &in->template_source);
    return code;
}

static int check(const run_args *a, const run_input *in) {
    if (a->raw && (a->system != NULL || a->template_path != NULL))
        return cli_error(CLI_USAGE, "--raw uses no chat template: --system and --template do not fit it");
    if (!in->one_shot && a->raw)
        return cli_error(CLI_USAGE, "--raw needs a prompt: -p TEXT, -f FILE or standard input");
    if (in->one_shot && a->pin_system != NULL)
        return cli_error(CLI_USAGE, "--pin-system is for a chat; a single answer takes --system");
    if (!in->one_shot && a->json)
        return cli_error(CLI_USAGE, "--json needs a prompt: -p TEXT, -f FILE or standard input");
    if (in->one_shot && !a->raw && in->prompt.len == 0) return cli_error(CLI_USAGE, "the prompt is empty");
    return CLI_OK;
}

/* A prompt that spells the BOS token itself is often a leftover of another tool; the model sees one all the
 * same. */
static void warn_of_bos(const runner *r, const run_input *in) {
    pn_text bos = {0};
    if (r->info.bos_id < 0 || pn_detokenize(r->model, &r->info.bos_id, 1, true, &bos, NULL) != PN_OK) return;
    if (bos.len > 0 && in->prompt.len >= bos.len && memcmp(in->prompt.data, bos.data, bos.len) == 0)
        cli_warn("the prompt itself begins with the BOS token %s; no other is put before it", bos.data);
    pn_text_free(&bos);
}

static pn_status tokenize_prompt(const runner *r, const run_args *a, const run_input *in,
                                 const conversation *c, const pn_chat_options *render, pn_tokens *out,
                                 pn_error *err) {
    if (!a->raw) return conversation_tokenize(c, r->model, render, out, err);
    warn_of_bos(r, in);
    return pn_tokenize(r->model, in->prompt.data, in->prompt.len, PN_TOKENIZE_BOS | PN_TOKENIZE_CONTROL, out,
                       err);
}

static int print_answer(const runner *r, const run_args *a, const pn_cache_explanation *why,
                        const pn_generate_result *result) {
    if (a->json) {
        json_t *object = runner_answer_json(r, result);
        if (a->explain_cache) json_object_set_new(object, "cache", runner_cache_json(r, why, result));
        json_print(object);
        json_decref(object);
    } else if (term_is_tty(stdout) &&
               (result->text.len == 0 || result->text.data[result->text.len - 1] != '\n')) {
        putchar('\n');
    }
    runner_note_pressure(r, result);
    if (a->stats) runner_print_stats(r, result);
    if (a->explain_cache) runner_print_cache(r, why, result);
    return cli_finish_output(result->finish == PN_FINISH_CANCELLED ? CLI_INTERRUPTED : CLI_OK);
}

static int answer_once(runner *r, const run_args *a, const run_input *in, conversation *c,
                       const chat_options *chat) {
    pn_error err = {0};
    pn_tokens prompt = {0};
    pn_generate_result result = {0};
    pn_cache_explanation why = {.message = -1};
    pn_generate_options generate = chat->generate;
    conversation_add(c, "user", in->prompt.data, in->prompt.len);
    pn_status status = tokenize_prompt(r, a, in, c, &chat->render, &prompt, &err);
    if (status == PN_OK && !a->raw)
        status = conversation_count_system(c, r->model, &chat->render, &generate.n_keep, &err);
    if (status == PN_OK && !a->raw && a->explain_cache)
        status = conversation_explain(c, r->session, &chat->render, &why, &err);
    if (status == PN_OK)
        status = runner_answer(r, &prompt, &generate, a->json ? NULL : stdout, true, &result, &err);
    pn_tokens_free(&prompt);
    if (status == PN_ERR_IO) /* the only file in play is standard output, and that is no model's fault */
        return cli_error(CLI_FAILED, "%s", err.message);
    if (status != PN_OK) return cli_fail_template(&err, a->template_path);
    int code = print_answer(r, a, &why, &result);
    pn_generate_result_free(&result);
    return code;
}

static int talk(runner *r, const run_args *a, const run_input *in) {
    chat_options chat = {
        .render = {.template_source = in->template_source.data, .now = a->now},
        .generate = generate_options(a),
        .stats = a->stats,
        .pin = a->pin_system != NULL,
        .explain_cache = a->explain_cache,
    };
    if (!a->raw && in->template_source.data == NULL && !r->info.has_chat_template)
        cli_warn("%s", r->info.template_note != NULL ? r->info.template_note
                                                     : "the model has no chat template; a plain one is used");
    conversation c;
    conversation_init(&c);
    conversation_set_system(&c, in->system.data, in->system.len);
    int code = in->one_shot ? answer_once(r, a, in, &c, &chat) : chat_run(r, &c, &chat);
    conversation_done(&c);
    return code;
}

static int run_model(const char *path, const run_args *a, const run_input *in) {
    char *usual = runner_baked_path(path);
    runner r = {.model_options = {.n_threads = a->n_threads,
                                  .n_threads_decode = a->n_threads_decode,
                                  .cache_dir = a->cache_dir,
                                  .cache_dir_bytes = a->cache_dir_bytes,
                                  .baked = a->baked != NULL           ? a->baked
                                           : access(usual, F_OK) == 0 ? usual
                                                                      : NULL},
                .session_options = {.n_ctx = a->n_ctx,
                                    .tier = a->tier,
                                    .kv_bytes = a->kv_quota,
                                    .kv_type = (pn_kv_type)a->kv_type,
                                    .precision = (pn_precision)a->precision,
                                    .lookup = (pn_lookup_mode)a->lookup,
                                    .overflow = (pn_overflow)a->overflow},
                .memory_budget = a->memory_budget};
    r.model_options.session = &r.session_options;
    kv_layers layers;
    int code = kv_layers_set(&layers, a->kv_layers, &r.model_options);
    if (code == CLI_OK) code = a->plan ? plan_print(path, &r, a->json) : runner_open(&r, path);
    if (code == CLI_OK && !a->plan) code = runner_start(&r, a->verbose || a->stats || term_is_tty(stderr));
    if (code == CLI_OK && !a->plan) code = talk(&r, a, in);
    runner_close(&r);
    free(usual);
    return code;
}

static int run(void *args, const cli_texts *operands) {
    const run_args *a = args;
    run_input in = {0};
    if (a->tier != NULL && a->n_ctx != 0) return cli_error(CLI_USAGE, "--ctx and --tier exclude each other");
    if (a->cache_dir_bytes != 0 && a->cache_dir == NULL)
        return cli_error(CLI_USAGE, "--cache-dir-bytes needs --cache-dir DIR");
    if (a->pin_system != NULL && a->system != NULL)
        return cli_error(CLI_USAGE, "--system and --pin-system exclude each other");
    if (a->prompt != NULL && a->file != NULL)
        return cli_error(CLI_USAGE, "--prompt and --file exclude each other");
    char *path = operands->n > 0 ? cli_format("%s", operands->items[0]) : paths_default_model();
    if (path == NULL) return cli_error(CLI_USAGE, "neither XDG_CACHE_HOME nor HOME is set: name a model");
    int code;
    if (operands->n == 0 && access(path, R_OK) != 0)
        code = cli_error(CLI_FILE,
                         "%s is not there: `make run` or scripts/fetch-models.py fetches it; or name a "
                         "model: postern run MODEL",
                         path);
    else
        code = a->plan ? CLI_OK : read_input(a, &in);
    if (code == CLI_OK && !a->plan) code = check(a, &in);
    if (code == CLI_OK) code = run_model(path, a, &in);
    input_free(&in);
    free(path);
    return code;
}

const cli_command cmd_run = {
    .name = "run",
    .operands = "[MODEL]",
    .max_operands = 1,
    .summary = "answer a prompt, or chat",
    .description = "Answers the prompt of -p, -f or standard input; without one, chats. MODEL is a GGUF "
                   "file, by default "
                   "SmolLM2-135M-Instruct.Q4_1.gguf in $XDG_CACHE_HOME/postern or ~/.cache/postern.",
    .options = options,
    .args_size = sizeof(run_args),
    .set_defaults = set_defaults,
    .run = run,
};
