/* SPDX-License-Identifier: Apache-2.0 */
/* Packing loses nothing: for every weight type, a row of a packed panel decodes to the bits that the type's
   own decoder gives, read back one row at a time and as the kernels unpack it. */
#include "quant/panel.h"

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
    const uint8_t *panel;
    float expected[PN_PANEL_ROWS][COLUMNS_MAX];
} panel_case;

/* Packs rows that lie `gap` bytes apart, twice over different bytes, since all of the panel is to be written.
 */
static void pack(panel_case *p, size_t gap, int content, int place) {
    size_t row_bytes = p->n_col / p->type->block_len * p->type->block_bytes,
           bytes = pn_panel_bytes(p->kind, p->n_col);
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
        pn_panel_decode_row(p->kind, p->panel, r, p->n_col, row);
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
        kernels->expand[p->kind](p->panel, p->n_col, &codes);
        kernels->codes_to_f32(&codes, 0, codes.n_step, out);
    }
    for (size_t i = 0; i < n; i++)
        check_value(p, i % PN_PANEL_ROWS, i / PN_PANEL_ROWS, out[i]);
}

static void check_case(panel_case *p, size_t gap, int content, int place) {
    pack(p, gap, content, place);
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
    for (size_t i = 0; (p.type = pn_qtype_at(i)); i++) {
        p.kind = pn_panel_kind_of(p.type);
        for (size_t n = 0; n < PN_PANEL_ROWS * COUNT(widths); n++) {
            p.n_row = 1 + n % PN_PANEL_ROWS;
            p.n_col = widths[n / PN_PANEL_ROWS] * p.type->block_len;
            if (p.n_col > COLUMNS_MAX) continue;
            check_case(&p, n % 4 * 3, n % 5 < N_CONTENT ? (int)(n % 5) : RANDOM_BITS, (int)(n % (ASKEW + 1)));
        }
    }
}

/* ---- kinds ---- */

static const struct {
    const char *name;
    pn_panel_kind kind;
} kinds[] = {
#define PN_PANEL(name, ...) {#name, PN_PANEL_##name},
#include "quant/panels.inc"
#undef PN_PANEL
    {"F32", PN_PANEL_F32},
    {"F16", PN_PANEL_F16},
    {"BF16", PN_PANEL_BF16},
};

static void test_kinds(void **state) {
    (void)state;
    size_t n_type = 0;
    for (const pn_qtype *type; (type = pn_qtype_at(n_type)); n_type++) {
        size_t k = 0;
        while (k < COUNT(kinds) && strcmp(kinds[k].name, type->name) != 0)
            k++;
        assert_true(k < COUNT(kinds));
        assert_int_equal(pn_panel_kind_of(type), kinds[k].kind);
    }
    assert_int_equal(n_type, COUNT(kinds)); /* every kind has its type */
}

/* A type of its own stands for what is packed already: its block is a unit of the panel. */
static void test_packed_types(void **state) {
    (void)state;
    for (size_t k = 0; k < COUNT(kinds); k++) {
        const pn_qtype *type = pn_qtype_find(PN_QTYPE_PACKED + (uint32_t)kinds[k].kind);
        assert_non_null(type);
        assert_memory_equal(type->name, kinds[k].name, strlen(kinds[k].name));
        assert_int_equal(pn_panel_kind_of(type), kinds[k].kind);
        assert_int_equal(type->block_rows, PN_PANEL_ROWS);
        assert_int_equal(type->block_bytes, pn_panel_bytes(kinds[k].kind, type->block_len));
        const uint64_t dims[4] = {3 * type->block_len, 17, 1, 1};
        assert_int_equal(pn_qtype_bytes(type, dims), 2 * pn_panel_bytes(kinds[k].kind, 3 * type->block_len));
    }
}

/* The bytes of the file, and what its scales of 4 and 6 bits take as bytes. */
static void test_sizes(void **state) {
    (void)state;
    for (size_t i = 0; pn_qtype_at(i); i++) {
        const pn_qtype *type = pn_qtype_at(i);
        size_t file = (size_t)type->block_bytes * PN_PANEL_ROWS, n_col = type->block_len;
        size_t packed = pn_panel_bytes(pn_panel_kind_of(type), n_col);
        assert_in_range(packed, file, file + file / 5);
        assert_int_equal(pn_panel_bytes(pn_panel_kind_of(type), 3 * n_col), 3 * packed);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_lost),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_packed_types),
        cmocka_unit_test(test_sizes),
    };
    pn_rng_seed(&rng, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
