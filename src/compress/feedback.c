/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/feedback.h"

#include "compress/fit.h"

#include <string.h>

enum { ROWS = PN_PANEL_ROWS, BLOCK = 16 }; /* columns between which feedback goes one by one */

#define LINE          ((size_t)64)
#define ROUNDED(n)    (((n) + LINE - 1) / LINE * LINE)
#define LANE_BYTES(n) ((n)*ROWS * sizeof(float))

size_t pn_feedback_room_bytes(size_t max_col) {
    return 3 * LANE_BYTES(max_col) + ROUNDED(ROWS * max_col) +
           ROUNDED(ROWS * max_col / PN_STEP * sizeof(pn_integer_scale));
}

pn_feedback_room pn_feedback_room_in(void *memory, size_t max_col) {
    char *at = memory;
    pn_feedback_room room = {.weights = (float *)(void *)at,
                             .errors = (float *)(void *)(at + LANE_BYTES(max_col)),
                             .wanted = (float *)(void *)(at + 2 * LANE_BYTES(max_col)),
                             .codes = (uint8_t *)(at + 3 * LANE_BYTES(max_col))};
    room.scales = (pn_integer_scale *)(void *)(at + 3 * LANE_BYTES(max_col) + ROUNDED(ROWS * max_col));
    return room;
}

/* One panel under way. */
struct panel {
    const pn_gram *gram;
    const pn_kernels *kernels;
    pn_panel_format format;
    size_t n_col, group;
    const pn_feedback_room *room;
    float d[ROWS], inverse[ROWS], zero[ROWS]; /* of the group at hand */
    double loss;
};

static const float *factors(const struct panel *p, size_t column) {
    return p->gram->h + column * p->gram->stride;
}

/* Adds what columns from .. to have lost to what is wanted of n columns from `column` on. */
static void feed_back(const struct panel *p, size_t from, size_t to, size_t column, size_t n) {
    p->kernels->matmul_f32(p->room->errors + from * ROWS, ROWS, factors(p, column) + from, p->gram->stride, n,
                           to - from, p->room->wanted + column * ROWS, ROWS);
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
static void round_column(struct panel *p, size_t column) {
    const pn_feedback_room *room = p->room;
    const float *v = room->wanted + column * ROWS, *w = room->weights + column * ROWS;
    float *error = room->errors + column * ROWS;
    const float most = (float)((1 << p->format.bits) - 1);
    double loss = 0;
    for (int r = 0; r < ROWS; r++) {
        float code = v[r] * p->inverse[r] + p->zero[r];
        code = code > 0 ? code : 0;
        code = nearest(code < most ? code : most);
        float rounded = p->d[r] * (code - p->zero[r]);
        room->codes[(size_t)r * p->n_col + column] = (uint8_t)code;
        error[r] = w[r] - rounded;
        loss += (double)(v[r] - rounded) * (double)(v[r] - rounded);
    }
    p->loss += loss * (double)p->gram->d[column];
}

/* The scales are fitted to what is wanted of the group's columns before any of them is rounded. */
static void begin_group(struct panel *p, pn_panel_kind kind, size_t first) {
    const pn_feedback_room *room = p->room;
    const size_t n_group = p->n_col / p->group;
    pn_integer_scale *scales = room->scales + first / p->group;
    memcpy(room->wanted + first * ROWS, room->weights + first * ROWS, p->group * ROWS * sizeof(float));
    if (first > 0) feed_back(p, 0, first, first, p->group);
    pn_fit_scales(kind, room->wanted + first * ROWS, p->gram->d + first, p->group, scales, n_group);
    for (int r = 0; r < ROWS; r++) {
        const pn_integer_scale scale = scales[(size_t)r * n_group];
        p->d[r] = pn_f16_to_f32(scale.d);
        p->inverse[r] = 1.0f / p->d[r];
        p->zero[r] = p->format.min ? (float)scale.zero : (float)p->format.zero;
    }
}

double pn_feedback_round(const pn_gram *gram, const pn_kernels *kernels, pn_panel_kind kind,
                         pn_panel_shape shape, const pn_feedback_room *room) {
    struct panel p = {.gram = gram,
                      .kernels = kernels,
                      .format = pn_panel_formats[kind],
                      .n_col = shape.n_col,
                      .group = shape.group,
                      .room = room};
    for (size_t first = 0; first < p.n_col; first += BLOCK) {
        const size_t group = first / p.group * p.group;
        if (first == group)
            begin_group(&p, kind, first);
        else
            feed_back(&p, group, first, first, BLOCK);
        for (size_t c = first; c < first + BLOCK; c++) {
            for (size_t before = first; before < c; before++)
                add_error(&p, before, c);
            round_column(&p, c);
        }
    }
    return p.loss;
}

/* With nothing rounded all of the weights is error: H is U D U^T. */
double pn_feedback_energy(const pn_gram *gram, const pn_kernels *kernels, const pn_feedback_room *room) {
    double sum = 0;
    memcpy(room->wanted, room->weights, gram->n * ROWS * sizeof(float));
    for (size_t c = 0; c < gram->n; c += BLOCK) {
        const size_t n = gram->n - c < BLOCK ? gram->n - c : BLOCK;
        if (c > 0)
            kernels->matmul_f32(room->weights, ROWS, gram->h + c * gram->stride, gram->stride, n, c,
                                room->wanted + c * ROWS, ROWS);
        for (size_t i = c; i < c + n; i++) {
            const float *share = gram->h + i * gram->stride;
            float *v = room->wanted + i * ROWS;
            for (size_t before = c; before < i; before++)
                for (int r = 0; r < ROWS; r++)
                    v[r] += share[before] * room->weights[before * ROWS + (size_t)r];
            for (int r = 0; r < ROWS; r++)
                sum += (double)gram->d[i] * (double)v[r] * (double)v[r];
        }
    }
    return sum;
}
