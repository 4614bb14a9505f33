/* SPDX-License-Identifier: Apache-2.0 */
/* Packing loses nothing: for every weight type, a row of a packed panel decodes to the bits that the type's
   own decoder gives, read back one row at a time and as the kernels unpack it. The same for codes, scales and
   zeros that quant/integer.h packs. */
#include "quant/panel.h"

#include "quant/split.h"

#include "support/kernel_check.h"

enum { COLUMNS_MAX = 768 };

/* ---- data ---- */

/* Bits at random, so that scales are infinite and NaN too; all 0; all 1. */
enum { RANDOM_BITS, ALL_ZERO, ALL_ONE, N_CONTENT };

static void fill_bytes(uint8_t *bytes, size_t n, int content) {
    for (size_t i = 0; i < n; i++)
        bytes[i] = content == ALL_ZERO ? 0 : content == ALL_ONE ? 255 : (uint8_t)pn_rng_u64(&rng);
}

/* A packed panel, its source and the floats that it stands for. */
typedef struct panel_case {
    const pn_qtype *type;
    pn_panel_kind kind;
    size_t n_row, n_col;
    pn_panel_shape shape;
    const uint8_t *panel;
    float expected[PN_PANEL_ROWS][COLUMNS_MAX];
} panel_case;

/* Packs rows that lie `gap` bytes apart, twice over different bytes, since all of the panel is to be written.
 */
static void pack(panel_case *p, size_t gap, int content, int place) {
    size_t row_bytes = p->n_col / p->type->block_len * p->type->block_bytes,
           bytes = pn_panel_bytes(p->kind, p->shape);
    size_t stride = row_bytes + gap, n = (p->n_row - 1) * stride + row_bytes;
    uint8_t *rows = guarded(n, 1, place), *panel = guarded(bytes, 1, place),
            *again = guarded(bytes, 1, place);
    fill_bytes(rows, n, content);
    memset(panel, 0x55, bytes);
    memset(again, 0xaa, bytes);
    pn_panel_pack(p->type, rows, stride, p->n_row, p->n_col, panel);
    pn_panel_pack(p->type, rows, stride, p->n_row, p->n_col, again);
    assert_memory_equal(panel, again, bytes);
    memset(p->expected, 0, sizeof p->expected);
    for (size_t r = 0; r < p->n_row; r++)
        p->type->decode(rows + r * stride, p->expected[r], p->n_col);
    p->panel = panel;
}

/* Rows that were not packed are zero, of either sign. */
static void check_value(const panel_case *p, size_t row, size_t column, float found) {
    float expected = p->expected[row][column];
    if (row < p->n_row ? same(found, expected) : found == 0) return;
    fail_msg("%s, %zu rows of %zu: row %zu, column %zu is %a, expected %a", p->type->name, p->n_row, p->n_col,
             row, column, found, expected);
}

/* ---- reading back ---- */

static void check_rows(const panel_case *p, int place) {
    float *row = guarded_floats(p->n_col, place);
    for (size_t r = 0; r < PN_PANEL_ROWS; r++) {
        pn_panel_decode_row(p->kind, p->shape, p->panel, r, row);
        for (size_t c = 0; c < p->n_col; c++)
            check_value(p, r, c, row[c]);
    }
}

static void check_kernels(const panel_case *p, const pn_kernels *kernels) {
    size_t n = p->n_col * PN_PANEL_ROWS;
    float *out = guarded_floats(n, AT_END);
    uint16_t *halves = guarded(n, sizeof *halves, AT_END);
    pn_codes codes = {.codes = guarded(n, 1, AT_END),
                      .scale = guarded_floats(n / 16, AT_END),
                      .offset = guarded_floats(n / 16, AT_END)};
    if (p->kind == PN_PANEL_F32) return;
    if (p->kind >= PN_PANEL_CODED_COUNT) {
        memcpy(halves, p->panel, n * sizeof *halves);
        (p->kind == PN_PANEL_F16 ? kernels->f16_to_f32 : kernels->bf16_to_f32)(halves, out, n);
    } else {
        kernels->expand[p->kind](p->panel, p->shape, &codes);
        kernels->codes_to_f32(&codes, 0, codes.n_step, out);
    }
    for (size_t i = 0; i < n; i++)
        check_value(p, i % PN_PANEL_ROWS, i / PN_PANEL_ROWS, out[i]);
}

static void check_packed(const panel_case *p, int place) {
    check_rows(p, place);
    pn_kernels scalar;
    pn_kernels_init(&scalar, 0);
    check_kernels(p, &scalar);
    check_kernels(p, pn_kernels_host());
    free_guarded();
}

static void test_nothing_is_lost(void **state) {
    (void)state;
    static panel_case p;
    static const size_t widths[] = {1, 2, 3, 7, 10, 18};
    for (size_t i = 0; (p.type = pn_qtype_at(i))->decode; i++) {
        p.kind = pn_panel_kind_of(p.type);
        for (size_t n = 0; n < PN_PANEL_ROWS * COUNT(widths); n++) {
            p.n_row = 1 + n % PN_PANEL_ROWS;
            p.n_col = widths[n / PN_PANEL_ROWS] * p.type->block_len;
            if (p.n_col > COLUMNS_MAX) continue;
            p.shape = pn_panel_shape_of(p.type, p.n_col);
            pack(&p, n % 4 * 3, n % 5 < N_CONTENT ? (int)(n % 5) : RANDOM_BITS, (int)(n % (ASKEW + 1)));
            check_packed(&p, (int)(n % (ASKEW + 1)));
        }
    }
}

/* ---- codes, scales and zeros ---- */

static uint8_t random_zero(pn_panel_format f) {
    return (uint8_t)(f.min ? random_below((size_t)1 << f.bits) : 0);
}

/* What a weight is by definition; with a scale that is not finite, as it is computed. */
static float weight_of(pn_panel_format f, uint8_t code, pn_integer_scale scale) {
    float d = pn_f16_to_f32(scale.d);
    if (!f.min) return d * (float)(code - f.zero);
    if (isfinite(d)) return d * (float)(code - scale.zero) + 0.0f; /* a sum that is 0 has no sign */
    return d * (float)(code - f.zero) + -(d * (float)(scale.zero - f.zero));
}

static void pack_integers(panel_case *p, int content, int place) {
    pn_panel_format f = pn_panel_formats[p->kind];
    size_t n_group = p->n_col / p->shape.group, bytes = pn_panel_bytes(p->kind, p->shape);
    uint8_t *codes = guarded(p->n_row * p->n_col, 1, place), *panel = guarded(bytes, 1, place),
            *again = guarded(bytes, 1, place);
    pn_integer_scale *scales = guarded(p->n_row * n_group, sizeof *scales, place);
    fill_bytes(codes, p->n_row * p->n_col, content);
    for (size_t i = 0; i < p->n_row * p->n_col; i++)
        codes[i] = (uint8_t)(codes[i] & ((1u << f.bits) - 1));
    for (size_t i = 0; i < p->n_row * n_group; i++)
        scales[i] = (pn_integer_scale){(uint16_t)pn_rng_u64(&rng), random_zero(f)};
    memset(panel, 0x55, bytes);
    memset(again, 0xaa, bytes);
    pn_integer_pack(p->kind, p->shape, codes, scales, p->n_row, panel);
    pn_integer_pack(p->kind, p->shape, codes, scales, p->n_row, again);
    assert_memory_equal(panel, again, bytes);
    memset(p->expected, 0, sizeof p->expected);
    for (size_t r = 0; r < p->n_row; r++)
        for (size_t c = 0; c < p->n_col; c++)
            p->expected[r][c] =
                weight_of(f, codes[r * p->n_col + c], scales[r * n_group + c / p->shape.group]);
    p->panel = panel;
}

static bool is_apart(const pn_qtype *type) {
    return type->kind < PN_PANEL_CODED_COUNT && pn_panel_formats[type->kind].apart;
}

static void test_integers(void **state) {
    (void)state;
    static panel_case p;
    static const size_t widths[] = {1, 2, 3, 5};
    size_t n_type = 0;
    for (size_t i = 0; (p.type = pn_qtype_at(i)); i++) {
        if (!is_apart(p.type)) continue;
        n_type++;
        p.kind = pn_panel_kind_of(p.type);
        for (size_t n = 0; n < PN_PANEL_ROWS * COUNT(widths); n++) {
            p.n_row = 1 + n % PN_PANEL_ROWS;
            p.n_col = widths[n / PN_PANEL_ROWS] * p.type->block_len;
            p.shape = pn_panel_shape_of(p.type, p.n_col);
            pack_integers(&p, n % 5 < N_CONTENT ? (int)(n % 5) : RANDOM_BITS, (int)(n % (ASKEW + 1)));
            check_packed(&p, (int)(n % (ASKEW + 1)));
        }
    }
    assert_int_equal(n_type, 16);
}

/* ---- kinds ---- */

static const struct {
    const char *name;
    pn_panel_kind kind;
} kinds[] = {
#define PN_PANEL(name, ...) {#name, PN_PANEL_##name},
#include "quant/block_panels.inc"
#undef PN_PANEL
    {"F32", PN_PANEL_F32},
    {"F16", PN_PANEL_F16},
    {"BF16", PN_PANEL_BF16},
};

static void test_kinds(void **state) {
    (void)state;
    size_t n_type = 0;
    for (const pn_qtype *type; (type = pn_qtype_at(n_type))->decode; n_type++) {
        size_t k = 0;
        while (k < COUNT(kinds) && strcmp(kinds[k].name, type->name) != 0)
            k++;
        assert_true(k < COUNT(kinds));
        assert_int_equal(pn_panel_kind_of(type), kinds[k].kind);
    }
    assert_int_equal(n_type, COUNT(kinds)); /* every kind has its type */
}

/* A type of its own stands for what is packed already, with an id that files of the first version hold: its
   block is a unit of the panel. */
static void test_packed_types(void **state) {
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const pn_qtype *type = pn_qtype_find(PN_QTYPE_PACKED + (uint32_t)k);
        assert_non_null(type);
        assert_memory_equal(type->name, kinds[k].name, strlen(kinds[k].name));
        assert_int_equal(pn_panel_kind_of(type), kinds[k].kind);
        assert_ptr_equal(pn_panel_type(kinds[k].kind, 0), type);
        assert_int_equal(type->block_rows, PN_PANEL_ROWS);
        const pn_panel_shape block = {type->block_len, 0}, three = {3 * type->block_len, 0};
        assert_int_equal(type->block_bytes, pn_panel_bytes(kinds[k].kind, block));
        const uint64_t dims[4] = {three.n_col, 17, 1, 1};
        assert_int_equal(pn_qtype_bytes(type, dims), 2 * pn_panel_bytes(kinds[k].kind, three));
    }
    const pn_qtype *split = pn_qtype_find(PN_QTYPE_PACKED + (uint32_t)COUNT(kinds));
    assert_ptr_equal(split, pn_panel_type(PN_PANEL_SPLIT_Q8_0, 0));
    for (pn_panel_kind kind = PN_PANEL_SPLIT_Q8_0; kind < PN_PANEL_KIND_COUNT; kind++) {
        const pn_qtype *type = pn_panel_type(kind, 0);
        const uint64_t dims[4] = {3 * (uint64_t)type->block_len, 17, 1, 1};
        assert_int_equal(pn_qtype_bytes(type, dims),
                         pn_split_bytes(pn_split_whole(kind), 2, (size_t)dims[0]));
    }
}

/* Number, kind and group make the id; block and bytes besides blocks the size. */
static void test_integer_types(void **state) {
    (void)state;
    static const struct {
        uint32_t id;
        const char *name;
        pn_panel_kind kind;
        size_t group, bytes; /* of a panel of 384 columns */
    } types[] = {
        {0x504e0010, "INT4_SYM_CH_R16", PN_PANEL_INT4_SYM, 0, 12 * 256 + 32},
        {0x504e0014, "INT4_ASYM_CH_R16", PN_PANEL_INT4_ASYM, 0, 12 * 256 + 40},
        {0x504e0012, "INT8_SYM_CH_R16", PN_PANEL_INT8_SYM, 0, 12 * 512 + 32},
        {0x504e0013, "INT8_ASYM_CH_R16", PN_PANEL_INT8_ASYM, 0, 12 * 512 + 48},
        {0x504e0510, "INT4_SYM_G32_R16", PN_PANEL_INT4_SYM, 32, 12 * (256 + 32)},
        {0x504e0513, "INT8_ASYM_G32_R16", PN_PANEL_INT8_ASYM, 32, 12 * (512 + 48)},
        {0x504e0614, "INT4_ASYM_G64_R16", PN_PANEL_INT4_ASYM, 64, 6 * (2 * 256 + 40)},
        {0x504e0712, "INT8_SYM_G128_R16", PN_PANEL_INT8_SYM, 128, 3 * (4 * 512 + 32)},
        {0x504e0714, "INT4_ASYM_G128_R16", PN_PANEL_INT4_ASYM, 128, 3 * (4 * 256 + 40)},
    };
    for (size_t i = 0; i < COUNT(types); i++) {
        const pn_qtype *type = pn_panel_type(types[i].kind, types[i].group);
        assert_non_null(type);
        assert_int_equal(type->id, types[i].id);
        assert_string_equal(type->name, types[i].name);
        assert_int_equal(pn_panel_kind_of(type), types[i].kind);
        pn_panel_shape shape = pn_panel_shape_of(type, 384);
        assert_int_equal(shape.group, types[i].group ? types[i].group : 384);
        assert_int_equal(pn_panel_bytes(types[i].kind, shape), types[i].bytes);
        const uint64_t dims[4] = {384, 33, 1, 1};
        assert_int_equal(pn_qtype_bytes(type, dims), 3 * types[i].bytes);
    }
    assert_null(pn_panel_type(PN_PANEL_INT4_SYM, 16));
    assert_null(pn_panel_type(PN_PANEL_INT4_SYM, 256));
}

/* The bytes of the file, and what its scales of 4 and 6 bits take as bytes. */
static void test_sizes(void **state) {
    (void)state;
    for (size_t i = 0; pn_qtype_at(i)->decode; i++) {
        const pn_qtype *type = pn_qtype_at(i);
        size_t file = (size_t)type->block_bytes * PN_PANEL_ROWS;
        const pn_panel_shape block = {type->block_len, 0}, three = {3 * type->block_len, 0};
        size_t packed = pn_panel_bytes(pn_panel_kind_of(type), block);
        assert_in_range(packed, file, file + file / 5);
        assert_int_equal(pn_panel_bytes(pn_panel_kind_of(type), three), 3 * packed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost), cmocka_unit_test(test_integers),
        cmocka_unit_test(test_kinds),           cmocka_unit_test(test_packed_types),
        cmocka_unit_test(test_integer_types),   cmocka_unit_test(test_sizes),
    };
    pn_rng_seed(&rng, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
