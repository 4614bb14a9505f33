/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/fit.h"

#include <math.h>
#include <string.h>

enum { ROWS = PN_FIT_ROWS };

#define WIDEST     1.05f /* of the values' own range */
#define STEPS      24
#define STEP       0.025f
#define TURNS      4
#define LEAST_D    0x1p-23f
#define GREATEST_D 65504.0f

/* A number per row. */
typedef struct lanes {
    float at[ROWS];
} lanes;

/* To the nearest whole number, halves to the even one; |x| < 2^22. */
static float nearest(float x) {
    const float shift = 0x1.8p23f;
    return (x + shift) - shift;
}

static float clamped(float x, float least, float most) {
    x = x > least ? x : least;
    return x < most ? x : most;
}

/* Codes, less the zero point, are from `least` to `most`; a try has a scale and, in ASYM kinds, a zero point.
 */
struct fit {
    const float *values, *weight;
    size_t n;
    float levels;
    bool asym;
    lanes best_loss, best_d, best_zero;
};

/* What is lost with scale d and zero point `zero`, and the least-squares scale for the codes: sums of
   weight * value * code and weight * code^2. */
static void try_scale(struct fit *f, const lanes *d, const lanes *zero) {
    lanes value_code = {{0}}, code_code = {{0}}, inverse, least, most;
    for (int r = 0; r < ROWS; r++) {
        inverse.at[r] = 1.0f / d->at[r];
        least.at[r] = f->asym ? -zero->at[r] : -f->levels / 2;
        most.at[r] = least.at[r] + f->levels - 1;
    }
    for (size_t c = 0; c < f->n; c++) {
        const float *v = f->values + c * ROWS, w = f->weight[c];
        for (int r = 0; r < ROWS; r++) {
            float code = nearest(clamped(v[r] * inverse.at[r], least.at[r], most.at[r]));
            value_code.at[r] += w * v[r] * code;
            code_code.at[r] += w * code * code;
        }
    }
    for (int r = 0; r < ROWS; r++) { /* the loss, less what does not depend on the scale */
        if (!(code_code.at[r] > 0)) continue;
        float fitted = value_code.at[r] / code_code.at[r], loss = -value_code.at[r] * fitted;
        if (!(loss < f->best_loss.at[r]) || !(fabsf(fitted) >= LEAST_D)) continue;
        f->best_loss.at[r] = loss;
        f->best_d.at[r] = fitted;
        f->best_zero.at[r] = zero->at[r];
    }
}

static void ranges(const float *values, size_t n, lanes *least, lanes *greatest) {
    memset(least, 0, sizeof *least);
    memset(greatest, 0, sizeof *greatest);
    for (size_t c = 0; c < n; c++)
        for (int r = 0; r < ROWS; r++) {
            float v = values[c * ROWS + (size_t)r];
            least->at[r] = v < least->at[r] ? v : least->at[r];
            greatest->at[r] = v > greatest->at[r] ? v : greatest->at[r];
        }
}

/* Within what a half holds. */
static float representable(float d) {
    if (!(fabsf(d) >= LEAST_D)) return LEAST_D;
    return clamped(d, -GREATEST_D, GREATEST_D);
}

/* From the end of greater magnitude, and from the other one. */
static void try_sym(struct fit *f, const lanes *least, const lanes *greatest, float width) {
    const lanes none = {{0}};
    for (int sign = -1; sign <= 1; sign += 2) {
        lanes d;
        for (int r = 0; r < ROWS; r++) {
            float size = greatest->at[r] > -least->at[r] ? greatest->at[r] : -least->at[r];
            d.at[r] = representable((float)sign * width * size / (f->levels / 2));
        }
        try_scale(f, &d, &none);
    }
}

static void try_asym(struct fit *f, const lanes *least, const lanes *greatest, float width, bool zeros) {
    for (int shift = -(int)zeros; shift <= (int)zeros; shift++) {
        lanes d, zero;
        for (int r = 0; r < ROWS; r++) {
            d.at[r] = representable(width * (greatest->at[r] - least->at[r]) / (f->levels - 1));
            zero.at[r] =
                clamped(nearest(clamped(-width * least->at[r] / d.at[r], 0, f->levels)) + (float)shift, 0,
                        f->levels - 1);
        }
        try_scale(f, &d, &zero);
    }
}

/* As quant/integer.h: the end of greater magnitude has the code that has no counterpart. */
static void take_range(struct fit *f, const lanes *least, const lanes *greatest) {
    for (int r = 0; r < ROWS; r++) {
        const float low = least->at[r], high = greatest->at[r];
        if (f->asym) {
            f->best_d.at[r] = representable((high - low) / (f->levels - 1));
            f->best_zero.at[r] = clamped(nearest(-low / f->best_d.at[r]), 0, f->levels - 1);
        } else {
            f->best_d.at[r] = representable((-low >= high ? -low : -high) / (f->levels / 2));
        }
    }
}

static void search_ranges(struct fit *f, const lanes *least, const lanes *greatest, bool zeros) {
    for (int i = 0; i < STEPS; i++) {
        const float width = WIDEST - STEP * (float)i;
        if (f->asym)
            try_asym(f, least, greatest, width, zeros);
        else
            try_sym(f, least, greatest, width);
    }
    for (int i = 0; i < TURNS; i++) {
        const lanes d = f->best_d, zero = f->best_zero;
        try_scale(f, &d, &zero);
    }
}

void pn_fit_scales(pn_panel_kind kind, pn_fit_search search, const float *values, const float *weight,
                   size_t n, pn_integer_scale *scales, size_t stride) {
    const pn_panel_format format = pn_panel_formats[kind];
    struct fit f = {
        .values = values, .weight = weight, .n = n, .levels = (float)(1 << format.bits), .asym = format.min};
    lanes least, greatest;
    for (int r = 0; r < ROWS; r++) { /* of a group of zeros */
        f.best_loss.at[r] = INFINITY;
        f.best_d.at[r] = LEAST_D;
        f.best_zero.at[r] = 0;
    }
    ranges(values, n, &least, &greatest);
    if (search.ranges)
        search_ranges(&f, &least, &greatest, search.zeros);
    else
        take_range(&f, &least, &greatest);
    for (int r = 0; r < ROWS; r++)
        scales[(size_t)r * stride] =
            (pn_integer_scale){pn_f32_to_f16(representable(f.best_d.at[r])), (uint8_t)f.best_zero.at[r]};
}
