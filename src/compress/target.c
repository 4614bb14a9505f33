/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/target.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/slice.h"
#include "compress/compress.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define MEASURED_TOKENS 4096
#define TRIES           5 /* between all and nothing in 4 bits */
#define RATIO_STEP      0.01

struct search {
    const char *in_path;
    double target;
    pn_compress_options options; /* of the try at hand */
    pn_progress_fn progress;
    void *user;
    char *try_path, *best_path, *statistics, *reference;
    double best_ratio; /* of the file at best_path; below 0: none */
    pn_compress_result best;
};

static char *joined(const char *path, const char *suffix) {
    pn_buf buf;
    size_t len;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%s%s", path, suffix);
    char *text = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return text;
}

/* ---- measuring ---- */

static pn_status measure(const struct search *s, const char *path, const pn_perplexity_options *how,
                         pn_perplexity_result *out, pn_error *err) {
    const pn_model_options options = {.n_threads = s->options.n_threads, .prefix_cache = PN_PREFIX_CACHE_OFF};
    pn_model *model;
    PN_TRY(pn_model_open(path, &options, &model, err));
    pn_status status =
        pn_perplexity(model, s->options.calibration, s->options.calibration_len, how, out, err);
    pn_model_close(model);
    return status;
}

/* What the uncompressed model says, once. */
static pn_status save_reference(const struct search *s, pn_error *err) {
    const size_t n_ctx = (size_t)s->options.calibration_tokens;
    const pn_perplexity_options how = {
        .n_ctx = (int)n_ctx, .n_chunks = MEASURED_TOKENS / n_ctx + 1, .save_reference = s->reference};
    pn_perplexity_result ignored;
    return measure(s, s->in_path, &how, &ignored, err);
}

/* Compresses with this ratio; kept as the best when it is within the target and the ratio the greatest so
 * far. */
static pn_status try_ratio(struct search *s, double ratio, double *kl, pn_error *err) {
    const pn_perplexity_options how = {.reference = s->reference};
    pn_perplexity_result found;
    pn_compress_result result;
    s->options.ratio = ratio;
    PN_TRY(pn_compress_to_panels(s->in_path, s->try_path, &s->options, s->progress, s->user, &result, err));
    pn_status status = measure(s, s->try_path, &how, &found, err);
    if (status == PN_OK) {
        *kl = result.kl = found.kl.value;
        result.kl_error = found.kl.error;
    }
    if (status == PN_OK && *kl <= s->target && ratio > s->best_ratio) {
        if (rename(s->try_path, s->best_path) != 0)
            status = pn_fail(err, PN_ERR_IO, "cannot write %s: %m", s->best_path);
        pn_compress_result_free(&s->best);
        s->best = result;
        s->best_ratio = ratio;
        return status;
    }
    pn_compress_result_free(&result);
    unlink(s->try_path);
    return status;
}

/* ---- searching ---- */

/* A ratio between the two, where the divergence would be the target's if its logarithm grew evenly, but not
   at an end. */
static double between(double low, double low_kl, double high, double high_kl, double target) {
    double share = 0.5;
    if (low_kl > 0 && high_kl > low_kl) share = (log(target) - log(low_kl)) / (log(high_kl) - log(low_kl));
    share = share < 0.1 ? 0.1 : share > 0.9 ? 0.9 : share;
    return low + share * (high - low);
}

static pn_status search(struct search *s, pn_error *err) {
    const double target = s->target;
    double low = 0, high = 1, low_kl, high_kl;
    PN_TRY(save_reference(s, err));
    PN_TRY(try_ratio(s, high, &high_kl, err));
    if (high_kl <= target) return PN_OK;
    PN_TRY(try_ratio(s, low, &low_kl, err));
    if (low_kl > target)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "a divergence of %g is out of reach: with all layers in 8 bits it is %.3g", target,
                       low_kl);
    for (int i = 0; i < TRIES && high - low > RATIO_STEP; i++) {
        double ratio = between(low, low_kl, high, high_kl, target), kl;
        PN_TRY(try_ratio(s, ratio, &kl, err));
        if (kl <= target) {
            low = ratio;
            low_kl = kl;
        } else {
            high = ratio;
            high_kl = kl;
        }
    }
    return PN_OK;
}

static void remove_files(const struct search *s, const char *own_statistics) {
    unlink(s->try_path);
    unlink(s->best_path);
    unlink(s->reference);
    if (own_statistics) unlink(own_statistics);
}

pn_status pn_compress_to_kl(const char *in_path, const char *out_path, const pn_compress_options *options,
                            pn_progress_fn progress, void *user, pn_compress_result *result, pn_error *err) {
    const double start = pn_clock_seconds();
    struct search s = {.in_path = in_path,
                       .target = options->target_kl,
                       .options = *options,
                       .progress = progress,
                       .user = user,
                       .try_path = joined(out_path, ".try.partial"),
                       .best_path = joined(out_path, ".best.partial"),
                       .statistics = joined(out_path, ".statistics.partial"),
                       .reference = joined(out_path, ".reference.partial"),
                       .best_ratio = -1};
    pn_status status = pn_fail_memory(err, "file names", 0);
    if (s.try_path && s.best_path && s.statistics && s.reference) {
        s.options.target_kl = 0;
        if (!s.options.statistics) s.options.statistics = s.statistics;
        status = search(&s, err);
        if (status == PN_OK && rename(s.best_path, out_path) != 0)
            status = pn_fail(err, PN_ERR_IO, "cannot write %s: %m", out_path);
        remove_files(&s, options->statistics ? NULL : s.statistics);
    }
    if (status == PN_OK) {
        s.best.seconds = pn_clock_seconds() - start;
        *result = s.best;
    } else {
        pn_compress_result_free(&s.best);
    }
    pn_free(s.try_path);
    pn_free(s.best_path);
    pn_free(s.statistics);
    pn_free(s.reference);
    return status;
}
