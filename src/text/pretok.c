/* SPDX-License-Identifier: Apache-2.0 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/pretok.h"

#include "base/mem.h"
#include "base/quote.h"
#include "text/vocab.h"

#include <pcre2.h>
#include <stdio.h>

/* Members of \s as Unicode's White_Space has them. PCRE2's own \s counts U+180E, which is none since
 * Unicode 6.3. */
#define SP "\\p{Z}\\t-\\r\\x{85}"

/* Spaces: all but the last when a word follows, which takes the last one along. */
#define SPACES      "[" SP "]+(?![^" SP "])|[" SP "]+"
#define LINE_ENDS   "[" SP "]*[\\r\\n]+"
#define CONTRACTION "'s|'t|'re|'ve|'m|'ll|'d"
#define ANY_CASE    "(?i:" CONTRACTION ")"
#define ONE_BEFORE  "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER       "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER       "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define GPT2        CONTRACTION "| ?\\p{L}+| ?\\p{N}+| ?[^" SP "\\p{L}\\p{N}]+|" SPACES
#define GPT4(digits)                                                                                         \
    ANY_CASE "|" ONE_BEFORE "\\p{L}+|" digits "| ?[^" SP "\\p{L}\\p{N}]+[\\r\\n]*|" LINE_ENDS "|" SPACES
#define QWEN35                                                                                               \
    ANY_CASE "|" ONE_BEFORE "[\\p{L}\\p{M}]+|\\p{N}| ?[^" SP "\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINE_ENDS      \
             "|" SPACES
#define CASED(suffix, digits)                                                                                \
    ONE_BEFORE UPPER "*" LOWER "+" suffix "|" ONE_BEFORE UPPER "+" LOWER "*" suffix "|" digits "| ?[^" SP    \
                     "\\p{L}\\p{N}]+[\\r\\n/]*|" LINE_ENDS "|" SPACES
#define CJK "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
/* Letters with case, as DeepSeek's first tokenizer lists them. */
#define DEEPSEEK_LETTERS                                                                                     \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-" \
    "\\x{2AF}"                                                                                               \
    "\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-"   \
    "\\x{3A1}"                                                                                               \
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{"  \
    "13F5}"                                                                                                  \
    "\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}"        \
    "\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"        \
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{"     \
    "1FBC}"                                                                                                  \
    "\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{"    \
    "1FEC}"                                                                                                  \
    "\\x{1FF2}-\\x{1FF4}\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{"     \
    "211D}"                                                                                                  \
    "\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"          \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{"     \
    "2CEE}"                                                                                                  \
    "\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}"         \
    "\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}"        \
    "\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{"      \
    "10CB2}"                                                                                                 \
    "\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
#define DEEPSEEK_MARKS "!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}"

#define MAX_STEPS 6

typedef struct recipe {
    const char *name;
    const char *steps[MAX_STEPS]; /* up to the first NULL */
    bool ignores_merges;
} recipe;

/* Sources: the pre_tokenizer of each model's tokenizer.json (Hugging Face), and llama.cpp's llama-vocab.cpp
   for what name stands for which. "default" is what llama.cpp applies to files that name nothing better. */
static const recipe recipes[] = {
    {"gpt-2", {GPT2}, false},
    {"olmo", {GPT2}, false},
    {"mpt", {GPT2}, false},
    {"phi-2", {GPT2}, false},
    {"smollm", {"\\p{N}", GPT2}, false},
    {"starcoder", {"\\p{N}", GPT2}, false},
    {"refact", {"\\p{N}", GPT2}, false},
    {"command-r", {"\\p{N}", GPT2}, false},
    {"codeshell", {"\\p{N}", GPT2}, false},
    {"exaone", {"\\p{N}", GPT2}, false},
    {"llama-bpe", {GPT4("\\p{N}{1,3}")}, true},
    {"llama3", {GPT4("\\p{N}{1,3}")}, true},
    {"llama-v3", {GPT4("\\p{N}{1,3}")}, true},
    {"dbrx", {GPT4("\\p{N}{1,3}")}, false},
    {"smaug-bpe", {GPT4("\\p{N}{1,3}")}, false},
    {"qwen2", {GPT4("\\p{N}")}, false},
    {"deepseek-r1-qwen", {GPT4("\\p{N}")}, false},
    {"qwen35", {QWEN35}, false},
    {"tekken", {CASED("", "\\p{N}")}, true},
    {"gpt-4o", {CASED(ANY_CASE "?", "\\p{N}{1,3}")}, false},
    {"llama4", {CASED(ANY_CASE "?", "\\p{N}{1,3}")}, false},
    /* The original \s+$ would look at the end from every space of a run; only its first can match. */
    {"deepseek-llm",
     {"[\\r\\n]", "[" SP "]?[" DEEPSEEK_LETTERS "]+", "[" SP "]?[" DEEPSEEK_MARKS "]+",
      "(?<![" SP "])[" SP "]++$", CJK, "\\p{N}"},
     false},
    {"deepseek-coder", {"[\\r\\n]", "[" SP "]?\\p{L}+", "[" SP "]?\\p{P}+", CJK, "\\p{N}"}, false},
    {"deepseek-v3",
     {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
      "| ?[\\p{P}\\p{S}]+[\\r\\n]*|" LINE_ENDS "|" SPACES},
     false},
    {"falcon", {"[\\p{P}$+<=>\\^~|`]+", GPT2, "[0-9][0-9][0-9]"}, false},
    {"default", {"[\\p{P}$+<=>\\^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}, false},
};

#define N_RECIPES (sizeof recipes / sizeof recipes[0])

struct pn_pretok {
    const recipe *recipe;
    pcre2_general_context *memory;
    size_t n_steps;
    pcre2_code *steps[MAX_STEPS];
};

struct pn_pretok_scratch {
    pcre2_match_data *match;
    pcre2_match_context *limits;
};

static void *pcre_alloc(size_t size, void *user) {
    (void)user;
    return pn_alloc(PN_MEM_OTHER, 1, size);
}

static void pcre_free(void *block, void *user) {
    (void)user;
    pn_free(block);
}

static const recipe *find_recipe(pn_str name) {
    for (size_t i = 0; i < N_RECIPES; i++) {
        if (pn_str_equal(name, pn_str_from(recipes[i].name))) return &recipes[i];
    }
    return NULL;
}

const char *const *pn_pretok_patterns(pn_str name, size_t *n, bool *ignores_merges) {
    const recipe *r = find_recipe(name);
    *n = 0;
    while (r && *n < MAX_STEPS && r->steps[*n])
        ++*n;
    *ignores_merges = r && r->ignores_merges;
    return r ? r->steps : NULL;
}

static pn_status fail_unknown(pn_str name, pn_error *err) {
    char known[320];
    size_t at = 0;
    for (size_t i = 0; i < N_RECIPES && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", recipes[i].name);
    return pn_fail(err, PN_ERR_UNSUPPORTED, "unknown pre-tokenizer \"%s\"; known are %s", pn_quote(name).text,
                   known);
}

static pn_status compile_step(pn_pretok *p, pcre2_compile_context *context, pn_error *err) {
    const char *pattern = p->recipe->steps[p->n_steps];
    int code;
    PCRE2_SIZE at;
    pcre2_code *step = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, context);
    if (!step) {
        if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED)
            return pn_fail_memory(err, "pre-tokenizer pattern", strlen(pattern));
        return pn_fail(err, PN_ERR_UNSUPPORTED,
                       "PCRE2 refuses the pattern of pre-tokenizer \"%s\" at %zu (error %d)", p->recipe->name,
                       (size_t)at, code);
    }
    p->steps[p->n_steps++] = step;
    pcre2_jit_compile(step, PCRE2_JIT_COMPLETE); /* where there is no JIT, the interpreter matches the same */
    return PN_OK;
}

pn_status pn_pretok_create(pn_str name, pn_pretok **out, pn_error *err) {
    const recipe *r = find_recipe(name);
    if (!r) return fail_unknown(name, err);
    pn_status status;
    pcre2_compile_context *context = NULL;
    pn_pretok *p = pn_alloc(PN_MEM_OTHER, 1, sizeof *p);
    if (!p) return pn_fail_memory(err, "pre-tokenizer", sizeof *p);
    p->recipe = r;
    p->memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (p->memory) context = pcre2_compile_context_create(p->memory);
    if (!context) {
        status = pn_fail_memory(err, "pre-tokenizer", sizeof *p);
        goto done;
    }
    while (p->n_steps < MAX_STEPS && r->steps[p->n_steps])
        PN_TRY_GOTO(status, compile_step(p, context, err), done);
    *out = p;
    p = NULL;
    status = PN_OK;
done:
    pcre2_compile_context_free(context);
    pn_pretok_free(p);
    return status;
}

void pn_pretok_free(pn_pretok *p) {
    if (!p) return;
    for (size_t i = 0; i < p->n_steps; i++)
        pcre2_code_free(p->steps[i]);
    pcre2_general_context_free(p->memory);
    pn_free(p);
}

bool pn_pretok_ignores_merges(const pn_pretok *p) {
    return p->recipe->ignores_merges;
}

pn_status pn_pretok_scratch_create(const pn_pretok *p, pn_pretok_scratch **out, pn_error *err) {
    pn_pretok_scratch *scratch = pn_alloc(PN_MEM_OTHER, 1, sizeof *scratch);
    if (!scratch) return pn_fail_memory(err, "pre-tokenizer scratch", sizeof *scratch);
    scratch->match = pcre2_match_data_create(1, p->memory);
    scratch->limits = pcre2_match_context_create(p->memory);
    if (!scratch->match || !scratch->limits) {
        pn_pretok_scratch_free(scratch);
        return pn_fail_memory(err, "pre-tokenizer scratch", sizeof *scratch);
    }
    *out = scratch;
    return PN_OK;
}

void pn_pretok_scratch_free(pn_pretok_scratch *scratch) {
    if (!scratch) return;
    pcre2_match_data_free(scratch->match);
    pcre2_match_context_free(scratch->limits);
    pn_free(scratch);
}

typedef struct cutter {
    const pn_pretok *p;
    pn_pretok_scratch *scratch;
    pn_pretok_word_fn word;
    void *ctx;
    pn_error *err;
} cutter;

/* The next match of one step at or after *begin. PN_OK with *begin == *end == len when there is none. */
static pn_status next_match(const cutter *c, size_t step, const char *text, size_t len, size_t *begin,
                            size_t *end) {
    int found = pcre2_match(c->p->steps[step], (PCRE2_SPTR)text, len, *begin, PCRE2_NO_UTF_CHECK,
                            c->scratch->match, c->scratch->limits);
    if (found == PCRE2_ERROR_NOMATCH) {
        *begin = *end = len;
        return PN_OK;
    }
    if (found == PCRE2_ERROR_NOMEMORY) return pn_fail_memory(c->err, "pre-tokenizer scratch", len);
    if (found < 0)
        return pn_fail(c->err, PN_ERR_LIMIT,
                       "pre-tokenizer \"%s\" gave up on a text of %zu bytes (PCRE2 error %d)",
                       c->p->recipe->name, len, found);
    const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(c->scratch->match);
    *begin = ends[0];
    *end = ends[1];
    return PN_OK;
}

/* Recursion is as deep as there are steps. */
static pn_status cut_from(const cutter *c, size_t step, const char *text, size_t len) {
    if (len == 0) return PN_OK;
    if (step == c->p->n_steps) return c->word(c->ctx, text, len, c->err);
    for (size_t done = 0; done < len;) {
        size_t begin = done, end = len;
        PN_TRY(next_match(c, step, text, len, &begin, &end));
        PN_TRY(cut_from(c, step + 1, text + done, begin - done));
        PN_TRY(cut_from(c, step + 1, text + begin, end - begin));
        done = end;
    }
    return PN_OK;
}

pn_status pn_pretok_cut(const pn_pretok *p, pn_pretok_scratch *scratch, const char *text, size_t len,
                        pn_pretok_word_fn word, void *ctx, pn_error *err) {
    /* A pattern may step back over a whole run once, so the bound on steps grows with the text. */
    uint64_t max_steps = 1000000 + 16 * (uint64_t)len;
    pcre2_set_match_limit(scratch->limits, max_steps < UINT32_MAX ? (uint32_t)max_steps : UINT32_MAX);
    const cutter c = {p, scratch, word, ctx, err};
    return cut_from(&c, 0, text, len);
}
