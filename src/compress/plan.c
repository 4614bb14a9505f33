/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/plan.h"

#include "base/mem.h"
#include "compress/knapsack.h"
#include "quant/split.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* ---- options ---- */

static bool is_4_bits(pn_weight_mode mode) {
    return mode == PN_WEIGHTS_INT4_ASYM || mode == PN_WEIGHTS_INT4_SYM;
}

static pn_panel_kind kind_of_mode(pn_weight_mode mode) {
    switch (mode) {
    case PN_WEIGHTS_INT4_SYM:
        return PN_PANEL_INT4_SYM;
    case PN_WEIGHTS_INT8_ASYM:
        return PN_PANEL_INT8_ASYM;
    case PN_WEIGHTS_INT8_SYM:
        return PN_PANEL_INT8_SYM;
    default:
        return PN_PANEL_INT4_ASYM;
    }
}

size_t pn_backup_group(const pn_compress_options *o) {
    return o->format == PN_FORMAT_GGUF ? 32 : 0;
}

pn_status pn_compress_check(const pn_compress_options *o, pn_error *err) {
    const int n_targets = (o->target_bytes > 0) + (o->target_bits > 0) + (o->target_kl > 0);
    if (o->group_size != 32 && o->group_size != 64 && o->group_size != 128 && o->group_size != -1)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "a group size of %d: possible are 32, 64, 128 and -1, a scale per row", o->group_size);
    if (!(o->ratio >= 0 && o->ratio <= 1))
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "a ratio of %g: it is the share of weights in 4 bits, from 0 to 1", o->ratio);
    if (!(o->target_bits >= 0 && o->target_bits <= 32))
        return pn_fail(err, PN_ERR_ARGUMENT, "a target of %g bits per weight: possible are 0 (none) to 32",
                       o->target_bits);
    if (n_targets > 1 || (n_targets == 1 && !is_4_bits(o->mode)))
        return pn_fail(err, PN_ERR_ARGUMENT,
                       n_targets > 1 ? "two targets: give bytes, bits per weight, or divergence"
                                     : "a target chooses between 4 and 8 bits: it needs an INT4 mode");
    if (!(o->target_kl >= 0))
        return pn_fail(err, PN_ERR_ARGUMENT, "a divergence of %g: it is above 0", o->target_kl);
    if (o->target_kl > 0 && !o->calibration)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "a target of divergence is measured on the calibration text: give one");
    if (o->calibration && o->calibrate_on_self)
        return pn_fail(err, PN_ERR_ARGUMENT, "calibration by a text or by what the model says, not by both");
    if (o->sensitivity > PN_SENSITIVITY_WEIGHT_ERROR && !o->calibration && !o->calibrate_on_self)
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "this sensitivity looks at what the layers read: it needs calibration");
    if ((o->calibration || o->calibrate_on_self) &&
        (o->calibration_sequences < 1 || o->calibration_sequences > 100000 || o->calibration_tokens < 16 ||
         o->calibration_tokens > 8192))
        return pn_fail(err, PN_ERR_ARGUMENT,
                       "calibration with %d sequences of %d tokens: possible are 1 to 100000 of 16 to 8192",
                       o->calibration_sequences, o->calibration_tokens);
    return PN_OK;
}

/* ---- roles ---- */

static bool ends_with(pn_str text, const char *suffix) {
    size_t n = strlen(suffix);
    return text.len >= n && memcmp(text.data + text.len - n, suffix, n) == 0;
}

static pn_role role_of(const pn_gguf_tensor *t) {
    if (t->n_dims != 2 || !ends_with(t->name, ".weight")) return PN_ROLE_OTHER;
    if (pn_str_equal(t->name, PN_STR("token_embd.weight"))) return PN_ROLE_EMBEDDING;
    if (pn_str_equal(t->name, PN_STR("output.weight"))) return PN_ROLE_HEAD;
    return t->name.len > 4 && memcmp(t->name.data, "blk.", 4) == 0 ? PN_ROLE_LAYER : PN_ROLE_OTHER;
}

static bool is_ignored(const pn_compress_options *o, pn_str name) {
    char text[256]; /* names are no longer (format/gguf.h) */
    snprintf(text, sizeof text, "%.*s", (int)name.len, name.data);
    for (size_t i = 0; i < o->n_ignore; i++)
        if (fnmatch(o->ignore[i], text, 0) == 0) return true;
    return false;
}

static bool is_float(const pn_qtype *type) {
    return type->id == PN_QTYPE_ID_F32 || type->id == PN_QTYPE_ID_F16 || type->id == PN_QTYPE_ID_BF16;
}

/* ---- groups ---- */

/* The size asked for, or the greatest smaller one that divides the row; -1 for none. */
static int fitting_group(int asked, uint64_t n_col) {
    if (asked == -1) return 0;
    for (int group = asked; group >= PN_STEP; group /= 2)
        if (n_col % (uint64_t)group == 0) return group;
    return -1;
}

static pn_status choose_group(const pn_compress_options *o, pn_choice *c, pn_error *err) {
    const pn_gguf_tensor *t = c->tensor;
    int group = fitting_group(o->group_size, t->dims[0]);
    if (group == o->group_size || o->group_size == -1) {
        c->group = (size_t)group;
        return PN_OK;
    }
    switch (o->fallback) {
    case PN_GROUP_ERROR:
        return pn_fail(
            err, PN_ERR_ARGUMENT,
            "%.*s has rows of %llu weights, which groups of %d do not divide: choose a smaller group "
            "size, or let it be adjusted",
            (int)t->name.len, t->name.data, (unsigned long long)t->dims[0], o->group_size);
    case PN_GROUP_IGNORE:
        c->compressed = false;
        c->may_be_4_bits = false;
        c->why = "the group size does not divide its rows";
        return PN_OK;
    default:
        c->group = (size_t)group;
        c->why = "a smaller group, which divides its rows";
        return PN_OK;
    }
}

/* ---- first choices ---- */

static void keep(pn_choice *c, const char *why) {
    c->compressed = c->may_be_4_bits = false;
    c->why = why;
}

static void back_up(const pn_compress_options *o, pn_choice *c, const char *why) {
    if (o->backup == PN_BACKUP_NONE) {
        keep(c, why);
        return;
    }
    c->kind = o->backup == PN_BACKUP_INT8_SYM ? PN_PANEL_INT8_SYM : PN_PANEL_INT8_ASYM;
    c->group = pn_backup_group(o);
    c->why = why;
}

static pn_status choose(const pn_compress_options *o, pn_choice *c, pn_error *err) {
    const pn_gguf_tensor *t = c->tensor;
    const pn_qtype *type = pn_qtype_find(t->type);
    c->role = role_of(t);
    if (c->role == PN_ROLE_OTHER) return PN_OK;
    if (is_ignored(o, t->name)) {
        keep(c, "asked to be left");
        return PN_OK;
    }
    if (!is_float(type))
        return pn_fail(
            err, PN_ERR_UNSUPPORTED,
            "%.*s is of type %s: compress the model's F16, BF16 or F32 file, since rounding twice adds "
            "both errors",
            (int)t->name.len, t->name.data, type->name);
    if (t->dims[0] % PN_STEP != 0) {
        keep(c, "its rows are no multiple of 32 weights");
        return PN_OK;
    }
    if (o->format == PN_FORMAT_COMPRESSED_TENSORS && c->role != PN_ROLE_LAYER) {
        keep(c, c->role == PN_ROLE_HEAD ? "the output head" : "the embedding");
        return PN_OK;
    }
    c->compressed = true;
    c->kind = kind_of_mode(o->mode);
    if (!is_4_bits(o->mode)) {
        c->group = pn_backup_group(o);
        c->why = "the mode";
        return PN_OK;
    }
    if (c->role != PN_ROLE_LAYER && !o->all_layers) {
        back_up(o, c, c->role == PN_ROLE_HEAD ? "the output head" : "the embedding");
        return PN_OK;
    }
    c->may_be_4_bits = true;
    c->why = "the mode";
    return choose_group(o, c, err);
}

pn_status pn_plan_begin(const pn_gguf *file, const pn_compress_options *o, pn_choices *out, pn_error *err) {
    size_t n = pn_gguf_n_tensors(file);
    pn_choices choices = {pn_alloc(PN_MEM_OTHER, n, sizeof *choices.items), n};
    if (!choices.items) return pn_fail_memory(err, "compression plan", n * sizeof *choices.items);
    const pn_role head = pn_gguf_find_tensor(file, "output.weight") ? PN_ROLE_HEAD : PN_ROLE_EMBEDDING;
    for (size_t i = 0; i < n; i++) {
        choices.items[i].tensor = pn_gguf_tensor_at(file, i);
        pn_status status = choose(o, &choices.items[i], err);
        choices.items[i].may_be_split = choices.items[i].role == head && o->format == PN_FORMAT_POSTERN;
        if (status == PN_OK) continue;
        pn_plan_done(&choices);
        return status;
    }
    size_t n_compressed = 0;
    for (size_t i = 0; i < n; i++)
        n_compressed += choices.items[i].compressed;
    if (n_compressed == 0) {
        pn_plan_done(&choices);
        return pn_fail(
            err, PN_ERR_UNSUPPORTED,
            "there is no matrix to compress: all are to be left, or have rows that are no multiple of "
            "32 weights");
    }
    *out = choices;
    return PN_OK;
}

void pn_plan_done(pn_choices *choices) {
    for (size_t i = 0; i < choices->n; i++)
        pn_free(choices->items[i].changed);
    pn_free(choices->items);
    *choices = (pn_choices){0};
}

/* ---- sizes ---- */

uint64_t pn_choice_weights(const pn_choice *c) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < c->tensor->n_dims; i++)
        n *= c->tensor->dims[i];
    return n;
}

const pn_qtype *pn_choice_type(const pn_choice *c) {
    const pn_qtype *type = pn_qtype_find(c->tensor->type);
    if (c->compressed && c->may_be_split && c->group == 0)
        return pn_panel_type(pn_split_kind(c->kind, c->tensor->dims[1]), 0);
    if (c->compressed) return pn_panel_type(c->kind, c->group);
    return c->tensor->n_dims == 2 && type->block_rows == 1 ? pn_panel_type(pn_panel_kind_of(type), 0) : type;
}

bool pn_choice_is_split(const pn_choice *c) {
    return c->compressed && pn_panel_kind_of(pn_choice_type(c)) != c->kind;
}

uint64_t pn_choice_bytes(const pn_choice *c) {
    return pn_qtype_bytes(pn_choice_type(c), c->tensor->dims);
}

/* ---- which of them have 8 bits ---- */

bool pn_plan_needs_errors(const pn_compress_options *o) {
    return is_4_bits(o->mode) && (o->ratio < 1 || o->target_bytes > 0 || o->target_bits > 0);
}

/* What a tensor takes in the end: in another format all is as large as in panels, but for Q4_1, whose offset
   is a half. */
static uint64_t final_bytes(const pn_compress_options *o, const pn_choice *c) {
    const bool is_q4_1 = o->format == PN_FORMAT_GGUF && c->compressed && c->kind == PN_PANEL_INT4_ASYM;
    return is_q4_1 ? pn_choice_weights(c) / 32 * 20 : pn_choice_bytes(c);
}

/* What all tensors take now. */
static uint64_t bytes_of_all(const pn_compress_options *o, const pn_choices *choices) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < choices->n; i++)
        bytes += final_bytes(o, &choices->items[i]);
    return bytes;
}

static uint64_t target_bytes(const pn_compress_options *o, const pn_choices *choices) {
    if (o->target_bytes > 0) return o->target_bytes;
    double weights = 0;
    for (size_t i = 0; i < choices->n; i++)
        weights += (double)pn_choice_weights(&choices->items[i]);
    return (uint64_t)(weights * o->target_bits / 8);
}

/* What giving a matrix 8 bits takes of what is limited: weights, or bytes. */
static uint64_t price(const pn_compress_options *o, const pn_choice *c, bool in_bytes) {
    if (!in_bytes) return pn_choice_weights(c);
    pn_choice backed_up = *c;
    back_up(o, &backed_up, NULL);
    return final_bytes(o, &backed_up) - final_bytes(o, c);
}

/* vLLM joins q, k and v of a layer, and gate and up, so in its format they are of one kind: the first of them
   stands for all. Of other matrices, itself. */
static size_t first_of_joined(const pn_compress_options *o, const pn_choices *choices, size_t i) {
    static const struct {
        const char *part, *first;
    } joined[] = {{".attn_k.weight", ".attn_q.weight"},
                  {".attn_v.weight", ".attn_q.weight"},
                  {".ffn_up.weight", ".ffn_gate.weight"}};
    const pn_str name = choices->items[i].tensor->name;
    for (size_t k = 0; o->format == PN_FORMAT_COMPRESSED_TENSORS && k < 3; k++) {
        if (!ends_with(name, joined[k].part)) continue;
        const size_t layer_len = name.len - strlen(joined[k].part);
        for (size_t j = 0; j < choices->n; j++) {
            const pn_str first = choices->items[j].tensor->name;
            if (first.len == layer_len + strlen(joined[k].first) &&
                memcmp(first.data, name.data, layer_len) == 0 && ends_with(first, joined[k].first))
                return j;
        }
    }
    return i;
}

pn_status pn_plan_ratio(const pn_compress_options *o, pn_choices *choices, pn_error *err) {
    const bool in_bytes = o->target_bytes > 0 || o->target_bits > 0;
    uint64_t capacity, all = 0;
    for (size_t i = 0; i < choices->n; i++)
        if (choices->items[i].may_be_4_bits) all += pn_choice_weights(&choices->items[i]);
    if (in_bytes) {
        uint64_t target = target_bytes(o, choices), least = bytes_of_all(o, choices);
        if (target < least)
            return pn_fail(
                err, PN_ERR_ARGUMENT,
                "a target of %llu bytes: with these options the least is %llu, all layers in 4 bits",
                (unsigned long long)target, (unsigned long long)least);
        capacity = target - least;
    } else {
        capacity = (uint64_t)((double)all * (1 - o->ratio) + 0.5);
    }
    uint64_t *sizes = pn_alloc(PN_MEM_SCRATCH, choices->n, sizeof *sizes);
    double *values = pn_alloc(PN_MEM_SCRATCH, choices->n, sizeof *values);
    bool *chosen = pn_alloc(PN_MEM_SCRATCH, choices->n, sizeof *chosen);
    pn_status status = PN_OK;
    if (!sizes || !values || !chosen) {
        status = pn_fail_memory(err, "choice of layers", choices->n * sizeof *sizes);
    } else {
        for (size_t i = 0; i < choices->n; i++) {
            const pn_choice *c = &choices->items[i];
            if (!c->may_be_4_bits) continue; /* of no value: never chosen */
            const size_t first = first_of_joined(o, choices, i);
            sizes[first] += price(o, c, in_bytes);
            values[first] += c->gain;
        }
        status = pn_knapsack(sizes, values, choices->n, capacity, chosen, err);
    }
    for (size_t i = 0; status == PN_OK && i < choices->n; i++)
        if (choices->items[i].may_be_4_bits && chosen[first_of_joined(o, choices, i)])
            back_up(o, &choices->items[i], "among the most sensitive");
    pn_free(sizes);
    pn_free(values);
    pn_free(chosen);
    return status;
}
