/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/feedback.h"

#include <string.h>

enum { ROWS = PN_PANEL_ROWS, BLOCK = 16 }; /* columns between which feedback goes one by one */

#define LINE          ((size_t)64)
#define ROUNDED(n)    (((n) + LINE - 1) / LINE * LINE)
#define LANE_BYTES(n) ((n)*ROWS * sizeof(float))

size_t pn_feedback_room_bytes(size_t max_col) {
    return 4 * LANE_BYTES(max_col) + ROUNDED(max_col * sizeof(float)) + ROUNDED(ROWS * max_col) +
           ROUNDED(ROWS * max_col / PN_STEP * sizeof(pn_integer_scale));
}

pn_feedback_room pn_feedback_room_in(void *memory, size_t max_col) {
    char *at = memory;
    float *lanes = (float *)(void *)at;
    const size_t n = max_col * ROWS;
    pn_feedback_room room = {
        .weights = lanes, .errors = lanes + n, .wanted = lanes + 2 * n, .stretched = lanes + 3 * n};
    at += 4 * LANE_BYTES(max_col);
    room.counts = (float *)(void *)at;
    at += ROUNDED(max_col * sizeof(float));
    room.codes = (uint8_t *)at;
    at += ROUNDED(ROWS * max_col);
    room.scales = (pn_integer_scale *)(void *)at;
    return room;
}

/* One panel under way. */
struct panel {
    const pn_kernels *kernels;
    const pn_column_rounding *how;
    const pn_feedback_room *room;
    pn_panel_format format;
    size_t n_col, group;
    float d[ROWS], inverse[ROWS], zero[ROWS]; /* of the group at hand */
};

static const float *factors(const struct panel *p, size_t column) {
    return p->how->gram->h + column * p->how->gram->stride;
}

/* Adds what columns from .. to have lost to what is wanted of n columns from `column` on. */
static void feed_back(const struct panel *p, size_t from, size_t to, size_t column, size_t n) {
    p->kernels->matmul_f32(p->room->errors + from * ROWS, ROWS, factors(p, column) + from,
                           p->how->gram->stride, n, to - from, p->room->wanted + column * ROWS, ROWS);
}

static void add_error(const struct panel *p, size_t before, size_t column) {
    const float share = factors(p, column)[before], *error = p->room->errors + before * ROWS;
    float *wanted = p->room->wanted + column * ROWS;
    for (int r = 0; r < ROWS; r++)
        wanted[r] += share * error[r];
}

/* To the nearest whole number, halves to the even one; 0 <= x < 2^22. */
static float nearest(float x) {
    const float shift = 0x1.8p23f;
    return (x + shift) - shift;
}

/* Columns are rounded to what is nearest to the weight and its share of the errors before it. */
static void round_column(const struct panel *p, size_t column) {
    const pn_feedback_room *room = p->room;
    const float *v = room->wanted + column * ROWS, *w = room->weights + column * ROWS;
    float *error = room->errors + column * ROWS;
    const float most = (float)((1 << p->format.bits) - 1);
    const float stretch = p->how->stretch ? p->how->stretch[column] : 1, shrink = 1 / stretch;
    uint8_t codes[ROWS];
    for (int r = 0; r < ROWS; r++) {
        float code = v[r] * stretch * p->inverse[r] + p->zero[r];
        code = code > 0 ? code : 0;
        code = nearest(code < most ? code : most);
        codes[r] = (uint8_t)code;
        error[r] = w[r] - p->d[r] * (code - p->zero[r]) * shrink;
    }
    for (size_t r = 0; r < ROWS; r++)
        room->codes[r * p->n_col + column] = codes[r];
}

/* What scales are fitted to: what is wanted of the group's columns, stretched, and what their errors count
   then. */
static const float *values_to_fit(const struct panel *p, size_t first) {
    const pn_feedback_room *room = p->room;
    const float *weight = p->how->gram ? p->how->gram->d : p->how->weight;
    memcpy(room->counts, weight + first, p->group * sizeof *weight);
    if (!p->how->stretch) return room->wanted + first * ROWS;
    for (size_t c = 0; c < p->group; c++) {
        const float stretch = p->how->stretch[first + c];
        room->counts[c] /= stretch * stretch;
        for (size_t r = 0; r < ROWS; r++)
            room->stretched[c * ROWS + r] = room->wanted[(first + c) * ROWS + r] * stretch;
    }
    return room->stretched;
}

/* The scales are fitted to what is wanted of the group's columns before any of them is rounded. */
static void begin_group(struct panel *p, size_t first) {
    const pn_feedback_room *room = p->room;
    const size_t n_group = p->n_col / p->group;
    pn_integer_scale *scales = room->scales + first / p->group;
    memcpy(room->wanted + first * ROWS, room->weights + first * ROWS, p->group * ROWS * sizeof(float));
    if (p->how->gram && first > 0) feed_back(p, 0, first, first, p->group);
    pn_fit_scales(p->how->kind, p->how->search, values_to_fit(p, first), room->counts, p->group, scales,
                  n_group);
    for (int r = 0; r < ROWS; r++) {
        const pn_integer_scale scale = scales[(size_t)r * n_group];
        p->d[r] = pn_f16_to_f32(scale.d);
        p->inverse[r] = 1.0f / p->d[r];
        p->zero[r] = p->format.min ? (float)scale.zero : (float)p->format.zero;
    }
}

void pn_feedback_round(const pn_kernels *kernels, const pn_column_rounding *how,
                       const pn_feedback_room *room) {
    struct panel p = {.kernels = kernels,
                      .how = how,
                      .room = room,
                      .format = pn_panel_formats[how->kind],
                      .n_col = how->shape.n_col,
                      .group = how->shape.group};
    for (size_t first = 0; first < p.n_col; first += BLOCK) {
        const size_t group = first / p.group * p.group;
        if (first == group)
            begin_group(&p, first);
        else if (how->gram)
            feed_back(&p, group, first, first, BLOCK);
        for (size_t c = first; c < first + BLOCK; c++) {
            for (size_t before = first; how->gram && before < c; before++)
                add_error(&p, before, c);
            round_column(&p, c);
        }
    }
}
