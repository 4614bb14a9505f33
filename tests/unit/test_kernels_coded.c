/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant of the kernels on coded weights and quantised inputs. All of them are EXACT, so each, scalar
   first, must give the bits of a reference written here from the comments of quant/panel.h and
   kernels/kernels.h, with sums in 64 bits. That makes `few`, matmul_codes of any batch and a token alone
   agree. Operands lie against inaccessible pages, and, where the contract does not align them, off any
   alignment. */
#include "quant/blocks.h"
#include "quant/split.h"
#include "support/kernel_check.h"

enum { COLUMNS_MAX = 768, STEPS_MAX = COLUMNS_MAX / PN_STEP, STEP_CODES = PN_STEP * PN_PANEL_ROWS };

/* ---- inputs ---- */

static pn_inputs guarded_inputs(int n_plane, size_t n_step, size_t n_tok, int place) {
    pn_inputs x = {.n_plane = n_plane, .n_step = n_step};
    x.codes = guarded(n_tok * (size_t)n_plane * n_step * PN_STEP, 1, place);
    x.scale = guarded_floats(n_tok * n_step, place);
    x.sum = guarded_floats(n_tok * n_step, place);
    x.bias = guarded(n_tok * n_step, sizeof *x.bias, place);
    x.half = guarded(n_tok * n_step * 2, sizeof *x.half, place);
    return x;
}

static int limit_of(const pn_inputs *x) {
    return x->n_plane == 2 ? 127 * 256 + 127 : 127;
}

static int8_t *low_plane(const pn_inputs *x, size_t token, size_t step) {
    return x->codes + (token * (size_t)x->n_plane * x->n_step + step) * PN_STEP;
}

static void put_integer(const pn_inputs *x, size_t token, size_t column, int q) {
    int low = ((q + 128) & 255) - 128; /* of the same low byte, in -128 .. 127 */
    low_plane(x, token, 0)[column] = (int8_t)low;
    if (x->n_plane == 2) low_plane(x, token, x->n_step)[column] = (int8_t)((q - low) / 256);
}

static int integer_at(const pn_inputs *x, size_t token, size_t column) {
    int low = low_plane(x, token, 0)[column];
    return x->n_plane == 2 ? low + 256 * low_plane(x, token, x->n_step)[column] : low;
}

static int64_t sum_of(const pn_inputs *x, size_t token, size_t column, size_t n) {
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += integer_at(x, token, column + i);
    return sum;
}

/* What quantise derives from the integers of a step and its scale. */
static void finish_step(const pn_inputs *x, size_t token, size_t step, float scale) {
    size_t at = token * x->n_step + step, column = step * PN_STEP;
    x->scale[at] = scale;
    x->sum[at] = scale * (float)sum_of(x, token, column, 32);
    x->bias[at] = (int32_t)(-128 * sum_of(x, token, column, 32));
    x->half[2 * at] = (int32_t)(-128 * sum_of(x, token, column, 16));
    x->half[2 * at + 1] = (int32_t)(-128 * sum_of(x, token, column + 16, 16));
}

/* The integers of a step: of every size, or those at which narrow sums overflow first. */
enum { ANY, GREATEST, LEAST, ALTERNATE, LOW_LEAST, SMALL, NOTHING, NOT_FINITE, N_STEP_KIND };

static int integer_of_kind(int kind, int limit, size_t column) {
    switch (kind) {
    case ANY:
        return (int)random_below(2 * (size_t)limit + 1) - limit;
    case GREATEST:
        return limit;
    case LEAST:
        return -limit;
    case ALTERNATE:
        return column % 2 ? -limit : limit;
    case LOW_LEAST:
        return limit == 127 ? -127 : (column % 2 ? -126 : 127) * 256 - 128;
    case SMALL:
        return (int)random_below(3) - 1;
    default:
        return 0;
    }
}

static void fill_step(const pn_inputs *x, size_t token, size_t step, int kind) {
    for (size_t c = step * PN_STEP; c < (step + 1) * PN_STEP; c++)
        put_integer(x, token, c, integer_of_kind(kind, limit_of(x), c));
    float scale = random_float() * powf(10, 3 * random_float());
    finish_step(x, token, step, kind == NOTHING ? 0 : kind == NOT_FINITE ? NAN : fabsf(scale));
}

/* All steps of one kind; or mixed, one token in four with a step that is not finite. */
static void fill_inputs(const pn_inputs *x, size_t n_tok, int kind) {
    for (size_t t = 0; t < n_tok; t++)
        for (size_t s = 0; s < x->n_step; s++)
            fill_step(x, t, s, kind < N_STEP_KIND ? kind : (int)random_below(NOT_FINITE));
    for (size_t t = random_below(4); t < n_tok && kind == N_STEP_KIND; t += 4)
        fill_step(x, t, random_below(x->n_step), NOT_FINITE);
}

static bool is_finite(const pn_inputs *x, size_t token) {
    for (size_t s = 0; s < x->n_step; s++)
        if (isnan(x->scale[token * x->n_step + s])) return false;
    return true;
}

/* ---- the reference ---- */

static int code_of(const pn_codes *w, size_t row, size_t column) {
    return w->codes[column / 4 * 64 + row * 4 + column % 4];
}

static float expected_output(const pn_codes *w, size_t row, const pn_inputs *x, size_t token) {
    size_t group = (size_t)w->group;
    float out = 0;
    for (size_t column = 0; column < w->n_step * PN_STEP; column += group) {
        size_t at = column / group * PN_PANEL_ROWS + row, step = token * x->n_step + column / PN_STEP;
        int64_t sum = 0;
        for (size_t i = column; i < column + group; i++)
            sum += (int64_t)code_of(w, row, i) * integer_at(x, token, i);
        float scale = w->scale[at] * x->scale[step];
        out = fmaf((float)sum, scale, out);
        if (!w->offset) continue;
        float inputs = group == 16 ? x->scale[step] * (float)sum_of(x, token, column, 16) : x->sum[step];
        out = fmaf(w->offset[at], inputs, out);
    }
    return out;
}

/* The code at a row and column of a step, from the planes that quant/panel.h describes. */
static int packed_code(pn_panel_format f, const uint8_t *step, size_t row, size_t column) {
    size_t vector = column / 4, byte = 4 * row + column % 4;
    int code = 0, shift = 0;
    if (f.bits == 8) code = step[64 * vector + byte];
    if (f.bits == 4 || f.bits == 5 || f.bits == 6) {
        uint8_t pair = step[64 * (vector % 4) + byte];
        code = vector < 4 ? pair & 15 : pair >> 4;
        step += 4 * 64;
        shift = 4;
    }
    if (f.bits == 2 || f.bits == 3 || f.bits == 6) {
        code |= (step[64 * (vector / 4) + byte] >> (2 * (vector % 4)) & 3) << shift;
        step += 2 * 64;
        shift += 2;
    }
    if (f.bits == 3 || f.bits == 5) code |= (step[8 * vector + byte / 8] >> (byte % 8) & 1) << shift;
    return f.codebook ? pn_iq4_values[code] : code - f.zero;
}

static float half_at(const uint8_t *halves, size_t row) {
    return pn_f16_to_f32((uint16_t)(halves[2 * row] | halves[2 * row + 1] << 8));
}

/* Scale and offset of a row, from the scales of a group that stand apart. */
static void apart_scale(pn_panel_format f, const uint8_t *d, size_t row, float *scale, float *offset) {
    *scale = half_at(d, row);
    *offset = 0;
    if (!f.min) return;
    int zero = f.bits == 8 ? d[32 + row] : row < 8 ? d[32 + row] & 15 : d[32 + row - 8] >> 4;
    *offset = -(*scale * (float)(zero - f.zero));
}

/* Scale and offset of a row and group of a unit. */
static void packed_scale(pn_panel_format f, const uint8_t *unit, size_t row, size_t group, float *scale,
                         float *offset) {
    size_t steps = f.super ? 8 : 1, small = f.super ? (size_t)256 / f.group * 16 : 0;
    const uint8_t *d = unit + steps * 64 * f.bits, *m = d + 32, *scales = f.min ? m + 32 : m;
    *scale = half_at(d, row);
    *offset = f.min ? half_at(m, row) : 0;
    if (!f.super) return;
    *scale *= (float)(int8_t)scales[16 * group + row];
    if (f.min) *offset = -(*offset * (float)(int8_t)scales[small + 16 * group + row]);
}

typedef struct reference {
    pn_codes codes;
    int8_t code[COLUMNS_MAX * PN_PANEL_ROWS];
    float scale[COLUMNS_MAX / 16 * PN_PANEL_ROWS], offset[COLUMNS_MAX / 16 * PN_PANEL_ROWS];
} reference;

static void unpack(pn_panel_format f, const uint8_t *panel, pn_panel_shape shape, reference *r) {
    size_t unit_columns = f.super ? 256 : 32, code_bytes = unit_columns * f.bits * 2;
    size_t unit_bytes = f.apart ? code_bytes : code_bytes + 32 + (f.min ? 32 : 0);
    size_t group_bytes = 32 + (f.min ? (size_t)2 * f.bits : 0);
    if (f.super) unit_bytes += (f.min ? 2 : 1) * (size_t)256 / f.group * 16;
    for (size_t c = 0; c < shape.n_col; c++) {
        const uint8_t *unit = panel + c / unit_columns * unit_bytes;
        const uint8_t *step = unit + c % unit_columns / 32 * 64 * f.bits;
        for (size_t row = 0; row < PN_PANEL_ROWS; row++) {
            size_t at = c / f.group * PN_PANEL_ROWS + row;
            r->code[c / 4 * 64 + row * 4 + c % 4] = (int8_t)packed_code(f, step, row, c % 32);
            if (f.apart)
                apart_scale(f, panel + shape.n_col * f.bits * 2 + c / shape.group * group_bytes, row,
                            &r->scale[at], &r->offset[at]);
            else
                packed_scale(f, unit, row, c % unit_columns / f.group, &r->scale[at], &r->offset[at]);
        }
    }
    r->codes = (pn_codes){.codes = r->code,
                          .scale = r->scale,
                          .offset = f.min ? r->offset : NULL,
                          .n_step = shape.n_col / PN_STEP,
                          .group = f.group,
                          .least = f.codebook ? 127 : f.zero,
                          .bits = f.codebook ? 8 : f.bits};
}

/* ---- panels ---- */

/* Codes and small scales at random, or all bits 0 or 1; the halves tame, or of every kind, infinities and NaN
   too. */
enum { RANDOM_BITS, ALL_ZERO, ALL_ONE, WILD, N_CONTENT };

static void put_tame_halves(uint8_t *halves, size_t n) {
    for (size_t i = 0; i < n; i++) {
        uint16_t half = pn_f32_to_f16(random_float() * powf(10, 2 * random_float()));
        memcpy(halves + 2 * i, &half, sizeof half);
    }
}

static uint8_t *guarded_panel(pn_panel_kind kind, pn_panel_shape shape, int content, int place) {
    pn_panel_format f = pn_panel_formats[kind];
    size_t bytes = pn_panel_bytes(kind, shape), n_unit = shape.n_col / pn_panel_unit_columns(f);
    uint8_t *panel = guarded(bytes, 1, place);
    for (size_t i = 0; i < bytes; i++)
        panel[i] = content == ALL_ZERO ? 0 : content == ALL_ONE ? 255 : (uint8_t)pn_rng_u64(&rng);
    for (size_t unit = 0; unit < n_unit && content != WILD; unit++)
        put_tame_halves(panel + pn_panel_scales_at(f, shape, unit), f.min && !f.apart ? 32 : 16);
    return panel;
}

/* Widths of one unit to many, even and odd, in groups where a format leaves these open; 0 past the last. */
static pn_panel_shape shape_of(pn_panel_kind kind, size_t i) {
    static const size_t small[] = {32, 64, 96, 160, 320, 576, 640, 0}, large[] = {256, 512, 768, 0};
    static const pn_panel_shape grouped[] = {{32, 32},   {64, 64},   {96, 32},   {96, 96},  {128, 128},
                                             {320, 64},  {384, 128}, {576, 32},  {576, 64}, {576, 576},
                                             {640, 128}, {640, 64},  {640, 640}, {0, 0}};
    if (pn_panel_formats[kind].apart) return grouped[i];
    return (pn_panel_shape){pn_panel_formats[kind].super ? large[i] : small[i], 0};
}

static const char *kind_name(pn_panel_kind kind) {
    static const char *const names[] = {
#define PN_PANEL(name, ...) #name,
#include "quant/panels.inc"
#undef PN_PANEL
    };
    return names[kind];
}

/* ---- few ---- */

typedef struct few_case {
    pn_panel_kind kind;
    pn_panel_shape shape;
    size_t n_panel, first, n_tok;
    int n_plane, content, inputs; /* what fill_inputs wants */
    int place;
} few_case;

static void check_few_case(pn_few_fn few, const few_case *c) {
    static reference references[PN_FEW_PANELS];
    const uint8_t *panels[PN_FEW_PANELS] = {0};
    for (size_t p = 0; p < c->n_panel; p++) {
        uint8_t *panel = guarded_panel(c->kind, c->shape, c->content, (c->place + (int)p) % (ASKEW + 1));
        unpack(pn_panel_formats[c->kind], panel, c->shape, &references[p]);
        panels[p] = panel;
    }
    pn_inputs x = guarded_inputs(c->n_plane, c->shape.n_col / PN_STEP, c->first + c->n_tok, c->place);
    fill_inputs(&x, c->first + c->n_tok, c->inputs);
    float *out = guarded_floats(c->n_panel * c->n_tok * PN_PANEL_ROWS, c->place);
    few(panels, c->n_panel, c->shape, &x, c->first, c->n_tok, out);
    for (size_t i = 0; i < c->n_panel * c->n_tok * PN_PANEL_ROWS; i++) {
        size_t row = i % PN_PANEL_ROWS, tok = c->first + i / PN_PANEL_ROWS % c->n_tok;
        size_t panel = i / PN_PANEL_ROWS / c->n_tok;
        float expected = expected_output(&references[panel].codes, row, &x, tok);
        if (!same(out[i], expected))
            fail_msg("few[%s] of %zu columns in groups of %zu, %zu panels, %zu tokens, %d planes: panel %zu, "
                     "token %zu, row %zu is "
                     "%a, expected %a",
                     kind_name(c->kind), c->shape.n_col, c->shape.group, c->n_panel, c->n_tok, c->n_plane,
                     panel, tok, row, out[i], expected);
        if (c->content != WILD) assert_int_equal(isnan(out[i]) == 0, is_finite(&x, tok));
    }
    free_guarded();
}

static void check_few(pn_few_fn few, pn_panel_kind kind) {
    int n = 0; /* the rest of a case goes round with it */
    for (size_t i = 0; shape_of(kind, i).n_col > 0; i++)
        for (size_t j = 0; j < PN_FEW_PANELS * PN_FEW_TOKENS * 2; j++, n++) {
            few_case c = {.kind = kind,
                          .shape = shape_of(kind, i),
                          .n_panel = 1 + j / 2 % PN_FEW_PANELS,
                          .n_tok = 1 + j / 2 / PN_FEW_PANELS,
                          .first = (size_t)n % 3,
                          .n_plane = 1 + (int)j % 2,
                          .content = n / 2 % N_CONTENT,
                          .inputs = N_STEP_KIND,
                          .place = n / 3 % (ASKEW + 1)};
            check_few_case(few, &c);
        }
    for (int inputs = 0; inputs < N_STEP_KIND; inputs++)
        for (int i = 0; i < 2 * N_CONTENT; i++) {
            few_case c = {kind,  shape_of(kind, 2), 4, 0, 1 + (size_t)inputs % 4, 1 + i % 2, i / 2, inputs,
                          AT_END};
            check_few_case(few, &c);
        }
}

/* ---- expand ---- */

static void check_expand_case(pn_expand_fn expand, pn_panel_kind kind, pn_panel_shape shape, int content,
                              int place) {
    static reference expected;
    pn_panel_format f = pn_panel_formats[kind];
    const uint8_t *panel = guarded_panel(kind, shape, content, place);
    unpack(f, panel, shape, &expected);
    size_t n_col = shape.n_col, n_scale = n_col / f.group * PN_PANEL_ROWS;
    int aligned = place == AT_START ? AT_START : AT_END;
    pn_codes w = {.codes = guarded(n_col * PN_PANEL_ROWS, 1, aligned),
                  .scale = guarded_floats(n_scale, aligned),
                  .offset = f.min ? guarded_floats(n_scale, aligned) : NULL,
                  .n_step = 77,
                  .group = 77,
                  .least = 77,
                  .bits = 77};
    expand(panel, shape, &w);
    assert_int_equal(w.n_step, n_col / PN_STEP);
    assert_int_equal(w.group, f.group);
    assert_int_equal(w.least, expected.codes.least);
    assert_int_equal(w.bits, expected.codes.bits);
    assert_int_equal(w.offset != NULL, f.min);
    assert_memory_equal(w.codes, expected.code, n_col * PN_PANEL_ROWS);
    for (size_t i = 0; i < n_scale; i++) {
        check_same(kind_name(kind), i, w.scale[i], expected.scale[i]);
        if (f.min) check_same(kind_name(kind), i, w.offset[i], expected.offset[i]);
    }
    free_guarded();
}

static void check_expand(pn_expand_fn expand, pn_panel_kind kind) {
    for (size_t i = 0; shape_of(kind, i).n_col > 0; i++)
        for (int j = 0; j < N_CONTENT * (ASKEW + 1); j++)
            check_expand_case(expand, kind, shape_of(kind, i), j / (ASKEW + 1), j % (ASKEW + 1));
}

/* ---- unpacked weights ---- */

/* Codes at random, all at their least, or all at their greatest. */
enum { CODES_ANY, CODES_LEAST, CODES_GREATEST, N_CODES };

/* What the formats have: the least code and the bits above it. */
typedef struct code_range {
    int least, bits;
} code_range;

static pn_codes guarded_codes(size_t n_step, int group, code_range range, bool offset, int codes, int place) {
    size_t n_code = n_step * STEP_CODES, n_scale = n_step * PN_STEP / (size_t)group * PN_PANEL_ROWS;
    pn_codes w = {.n_step = n_step, .group = group, .least = range.least, .bits = range.bits};
    w.codes = guarded(n_code, 1, place);
    w.scale = guarded_floats(n_scale, place);
    w.offset = offset ? guarded_floats(n_scale, place) : NULL;
    int most = (1 << range.bits) - 1 - range.least;
    if (most > 127) most = 127;
    for (size_t i = 0; i < n_code; i++) {
        int any = (int)random_below((size_t)(most + range.least + 1)) - range.least;
        w.codes[i] = (int8_t)(codes == CODES_LEAST ? -range.least : codes == CODES_GREATEST ? most : any);
    }
    fill(w.scale, n_scale, 0);
    if (offset) fill(w.offset, n_scale, 0);
    return w;
}

enum { MAX_TOK = 70, MAX_FIRST = 3 };

typedef struct codes_case {
    pn_codes w;
    pn_inputs x;
    float expected[MAX_FIRST + MAX_TOK][PN_PANEL_ROWS];
} codes_case;

/* Gaps in out stay as they are. */
static void check_codes_tile(const pn_kernels *t, const codes_case *c, size_t n_row, size_t first,
                             size_t n_tok, int place) {
    size_t mark = guarded_mark(), stride = n_row + 3, n_out = n_tok == 0 ? 0 : (n_tok - 1) * stride + n_row;
    float *out = guarded_floats(n_out, place);
    for (size_t i = 0; i < n_out; i++)
        out[i] = 77.0f;
    t->matmul_codes(&c->w, n_row, &c->x, first, n_tok, out, stride);
    for (size_t i = 0; i < n_out; i++) {
        size_t row = i % stride, tok = first + i / stride;
        float expected = row < n_row ? c->expected[tok][row] : 77.0f;
        if (!same(out[i], expected))
            fail_msg("matmul_codes of %zu steps, group %d, least %d, %soffset, %d planes, %zu rows, %zu "
                     "tokens from "
                     "%zu: token %zu, row %zu is %a, expected %a",
                     c->w.n_step, c->w.group, c->w.least, c->w.offset ? "" : "no ", c->x.n_plane, n_row,
                     n_tok, first, tok, row, out[i], expected);
    }
    free_guarded_to(mark);
}

/* The first or the last tokens of all there are, so that the guards are met. */
static void check_codes_batch(const pn_kernels *t, const codes_case *c, size_t n_row, size_t n_tok,
                              int place) {
    size_t first = place == AT_START ? n_tok % (MAX_FIRST + 1) : MAX_FIRST + MAX_TOK - n_tok;
    check_codes_tile(t, c, n_row, first, n_tok, place);
}

static void check_codes_case(const pn_kernels *t, codes_case *c, size_t n, int inputs, int place) {
    fill_inputs(&c->x, MAX_FIRST + MAX_TOK, inputs);
    for (size_t i = 0; i < MAX_FIRST + MAX_TOK; i++)
        for (size_t row = 0; row < PN_PANEL_ROWS; row++) {
            c->expected[i][row] = expected_output(&c->w, row, &c->x, i);
            assert_int_equal(isnan(c->expected[i][row]) == 0, is_finite(&c->x, i));
        }
    for (size_t i = 0; i < 9; i++) /* every number of tokens comes in a few cases */
        check_codes_batch(t, c, 1 + (n + i) % PN_PANEL_ROWS, (9 * n + i) % (MAX_TOK + 1), place);
    check_codes_batch(t, c, PN_PANEL_ROWS, MAX_TOK - n % 9, place);
}

static void check_matmul_codes(const pn_kernels *t) {
    static const code_range ranges[] = {{0, 2}, {4, 3}, {8, 4}, {0, 5}, {16, 5}, {32, 6}, {127, 8}, {128, 8}};
    static const size_t n_steps[] = {1, 2, 3, 5, 8, 18};
    codes_case *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t n = 0; n < COUNT(ranges) * COUNT(n_steps) * 8; n++) {
        int place = (int)(n / 16 % (ASKEW + 1)), n_plane = n & 4 ? 2 : 1;
        size_t n_step = n_steps[n / 8 % COUNT(n_steps)];
        c->w = guarded_codes(n_step, n & 1 ? 16 : 32, ranges[n / 8 / COUNT(n_steps)], n & 2,
                             (int)random_below(N_CODES), place == AT_START ? AT_START : AT_END);
        c->x = guarded_inputs(n_plane, n_step, MAX_FIRST + MAX_TOK, place);
        check_codes_case(t, c, n, N_STEP_KIND, place);
        if (n_step == 3) check_codes_case(t, c, n, (int)random_below(N_STEP_KIND), place);
        free_guarded();
    }
    c->w = guarded_codes(4, 32, (code_range){128, 8}, true, CODES_LEAST, AT_END);
    c->x = guarded_inputs(2, 4, MAX_FIRST + MAX_TOK, AT_END);
    for (int inputs = 0; inputs < N_STEP_KIND; inputs++)
        check_codes_case(t, c, 3, inputs, AT_END);
    for (size_t n_row = 0; n_row <= PN_PANEL_ROWS; n_row++)
        for (size_t n_tok = 0; n_tok < 20; n_tok++)
            check_codes_batch(t, c, n_row, n_tok, (int)(n_tok % N_PLACE));
    free_guarded();
    free(c);
}

static void check_codes_to_f32(const pn_kernels *t) {
    for (size_t n = 0; n < 6 * 8; n++) {
        int place = (int)(n / 4 % (ASKEW + 1));
        size_t n_step = 1 + n / 8 * 2, first = random_below(n_step), count = n_step - first;
        pn_codes w = guarded_codes(n_step, n & 1 ? 16 : 32, (code_range){128, 8}, n & 2, CODES_ANY,
                                   place == AT_START ? place : AT_END);
        if (n % 5 == 0) w.scale[random_below(n_step * 16)] = n % 2 ? INFINITY : NAN;
        float *out = guarded_floats(count * STEP_CODES, place);
        t->codes_to_f32(&w, first, count, out);
        for (size_t i = 0; i < count * STEP_CODES; i++) {
            size_t row = i % PN_PANEL_ROWS, column = first * PN_STEP + i / PN_PANEL_ROWS;
            size_t at = column / (size_t)w.group * PN_PANEL_ROWS + row;
            float expected = w.scale[at] * (float)code_of(&w, row, column);
            if (w.offset) expected += w.offset[at];
            check_same("codes_to_f32", i, out[i], expected);
        }
        t->codes_to_f32(&w, n_step, 0, out);
        free_guarded();
    }
}

/* ---- joining ---- */

static void check_join_case(const pn_kernels *t, size_t n_step, size_t scale_bytes, int place) {
    const pn_panel_format nibbles = {.bits = 4};
    size_t high_bytes = PN_SPLIT_CODES + 2 * scale_bytes, n_high = n_step * high_bytes,
           n_low = n_step * PN_SPLIT_CODES;
    uint8_t *high = guarded(n_high, 1, place), *low = guarded(n_low, 1, place),
            *panel = guarded(n_step * (STEP_CODES + scale_bytes), 1, place);
    for (size_t i = 0; i < n_high; i++)
        high[i] = (uint8_t)pn_rng_u64(&rng);
    for (size_t i = 0; i < n_low; i++)
        low[i] = (uint8_t)pn_rng_u64(&rng);
    t->join_split(high, low, n_step, scale_bytes, panel);
    for (size_t s = 0; s < n_step; s++, high += high_bytes, low += PN_SPLIT_CODES) {
        for (size_t i = 0; i < STEP_CODES; i++) {
            size_t row = i % PN_PANEL_ROWS, column = i / PN_PANEL_ROWS;
            int code = 16 * packed_code(nibbles, high, row, column) + packed_code(nibbles, low, row, column);
            assert_int_equal(panel[column / 4 * 64 + row * 4 + column % 4], code);
        }
        assert_memory_equal(panel + STEP_CODES, high + PN_SPLIT_CODES, scale_bytes);
        panel += STEP_CODES + scale_bytes;
    }
    free_guarded();
}

static void check_join_split(const pn_kernels *t) {
    for (size_t n_step = 0; n_step <= 20; n_step++)
        for (int place = AT_START; place <= ASKEW; place++)
            for (size_t scale_bytes = 0; scale_bytes <= 32; scale_bytes += 32)
                check_join_case(t, n_step, scale_bytes, place);
}

/* ---- quantise ---- */

static float edge_input(size_t i) {
    static const float edges[] = {0.0f,         -0.0f,       1e6f,   -1e6f,   1e-31f,  1e-30f,
                                  -1.0001e-30f, 9.9999e-31f, 1e-40f, -1e-44f, FLT_MAX, -FLT_MAX,
                                  FLT_MIN,      32639.0f,    126.5f, 0.5f};
    return edges[i % COUNT(edges)];
}

/* kind 0 to 2: as fill; 3: edges one kind to a step; 4: edges mixed; 5: numbers that lie halfway between
   integers; 6: one infinity or NaN somewhere in the step. */
static void fill_quantised(float *x, size_t kind, int limit) {
    size_t which = random_below(16);
    fill(x, PN_STEP, kind < N_KIND ? (int)kind : 0);
    for (size_t i = 0; i < PN_STEP; i++) {
        if (kind == 3) x[i] = edge_input(which);
        if (kind == 4) x[i] = edge_input(i + which);
        if (kind == 5) x[i] = (float)((int)random_below((size_t)limit) - limit / 2) + 0.5f;
    }
    if (kind == 5) x[which] = (float)limit;
    if (kind == 6) x[which + random_below(17)] = which % 3 == 0 ? INFINITY : which % 3 == 1 ? -INFINITY : NAN;
}

static void check_quantised_step(const float *x, const pn_inputs *found, size_t token, size_t step) {
    size_t at = token * found->n_step + step;
    double greatest = 0, limit = limit_of(found);
    bool finite = true;
    for (size_t i = 0; i < PN_STEP; i++) {
        greatest = fmax(greatest, fabs(x[i]));
        finite = finite && isfinite(x[i]);
    }
    bool zero = !finite || greatest < (double)1e-30f;
    float scale = zero ? 0 : (float)(greatest / limit), inverse = zero ? 0 : (float)(limit / greatest);
    int64_t sums[2] = {0};
    for (size_t i = 0; i < PN_STEP; i++) {
        float scaled = zero ? 0 : (float)((double)x[i] * inverse);
        int expected = (int)nearbyint(scaled);
        if (integer_at(found, token, step * PN_STEP + i) != expected)
            fail_msg("quantise of %a with inverse scale %a: %d, expected %d", x[i], inverse,
                     integer_at(found, token, step * PN_STEP + i), expected);
        sums[i / 16] += expected;
    }
    check_same("quantise scale", at, found->scale[at], finite ? scale : NAN);
    check_same("quantise sum", at, found->sum[at], finite ? scale * (float)(sums[0] + sums[1]) : NAN);
    assert_int_equal(found->bias[at], -128 * (sums[0] + sums[1]));
    assert_int_equal(found->half[2 * at], -128 * sums[0]);
    assert_int_equal(found->half[2 * at + 1], -128 * sums[1]);
}

static void check_quantise_case(const pn_kernels *t, int n_plane, size_t n_step, size_t first, size_t n_tok,
                                int place) {
    pn_inputs inputs = guarded_inputs(n_plane, n_step, first + n_tok, place);
    size_t before = first * n_step;
    memset(inputs.codes, 0x55, before * (size_t)n_plane * PN_STEP);
    memset(inputs.scale, 0x55, before * sizeof *inputs.scale);
    float *x = guarded_floats(n_tok * n_step * PN_STEP, place);
    for (size_t i = 0; i < n_tok * n_step; i++)
        fill_quantised(x + i * PN_STEP, random_below(7), limit_of(&inputs));
    t->quantise(x, first, n_tok, &inputs);
    for (size_t i = 0; i < n_tok * n_step; i++)
        check_quantised_step(x + i * PN_STEP, &inputs, first + i / n_step, i % n_step);
    for (size_t i = 0; i < before * (size_t)n_plane * PN_STEP; i++)
        assert_int_equal(inputs.codes[i], 0x55);
    for (size_t i = 0; i < before; i++)
        assert_memory_equal(&inputs.scale[i], "UUUU", sizeof inputs.scale[i]);
    free_guarded();
}

static void check_quantise(const pn_kernels *t) {
    for (size_t n = 0; n < 400; n++) {
        size_t n_step = n % 5 == 4 ? 18 : 1 + n % 5;
        check_quantise_case(t, 1 + (int)(n & 1), n_step, n / 7 % 3, n / 11 % 9, (int)(n / 2 % (ASKEW + 1)));
    }
}

/* ---- the table ---- */

static const kernel_slot slots[] = {
    {"quantise", offsetof(pn_kernels, quantise), check_quantise},
    {"matmul_codes", offsetof(pn_kernels, matmul_codes), check_matmul_codes},
    {"join_split", offsetof(pn_kernels, join_split), check_join_split},
    {"codes_to_f32", offsetof(pn_kernels, codes_to_f32), check_codes_to_f32},
};

static size_t check_new(const pn_kernels *table, const pn_kernels *before) {
    size_t n = check_new_slots(slots, COUNT(slots), table, before);
    for (int kind = 0; kind < PN_PANEL_CODED_COUNT; kind++) {
        if (table->few[kind] != before->few[kind]) {
            check_few(table->few[kind], (pn_panel_kind)kind);
            n++;
        }
        if (table->expand[kind] != before->expand[kind]) {
            check_expand(table->expand[kind], (pn_panel_kind)kind);
            n++;
        }
    }
    return n;
}

static void test_scalar(void **state) {
    (void)state;
    pn_kernels scalar, none = {0};
    pn_kernels_init(&scalar, 0);
    assert_int_equal(check_new(&scalar, &none), COUNT(slots) + 2 * PN_PANEL_CODED_COUNT);
}

static void test_variants(void **state) {
    (void)state;
    for_each_feature_step(check_new);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar),
        cmocka_unit_test(test_variants),
    };
    pn_rng_seed(&rng, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
