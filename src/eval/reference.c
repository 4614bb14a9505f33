/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/reference.h"

#include "base/cursor.h"
#include "base/mem.h"
#include "base/new_file.h"

#include <math.h>
#include <xxhash.h>

static const char magic[4] = {'P', 'N', 'L', 'P'};
#define VERSION    1
#define HEAD_BYTES 36 /* before the name */
#define HASH_BYTES 8
#define CODE_MAX   65535

uint64_t pn_tokens_hash(const int32_t *ids, size_t n) {
    return XXH3_64bits(ids, n * sizeof *ids);
}

static uint64_t checksum(const void *bytes, uint64_t n, uint64_t before) {
    return XXH3_64bits_withSeed(bytes, (size_t)n, before);
}

static size_t n_listed(const pn_reference_head *head) {
    return pn_summary_top(head->n_vocab) + pn_summary_drawn(head->n_vocab);
}

static uint64_t record_bytes(const pn_reference_head *head) {
    return 4 * sizeof(float) + n_listed(head) * (sizeof(uint32_t) + sizeof(uint16_t));
}

static uint64_t chunk_bytes(const pn_reference_head *head) { /* n_ctx is bounded */
    return HASH_BYTES + pn_scored_count(head->n_ctx) * record_bytes(head) + HASH_BYTES;
}

/* ---- writing ---- */

struct pn_reference_writer {
    pn_new_file file;
    uint64_t n_chunk_bytes, checksum;
    char *chunk; /* [n_chunk_bytes] the one at hand, which is written when it is full */
    size_t len;
};

static void put(char *bytes, size_t *len, const void *from, size_t n) {
    memcpy(bytes + *len, from, n);
    *len += n;
}

/* Writes a part that fills its buffer but for the checksum. */
static void write_part(pn_reference_writer *w, char *part, size_t len) {
    w->checksum = checksum(part, len, w->checksum);
    put(part, &len, &w->checksum, sizeof w->checksum);
    pn_new_file_write(&w->file, part, len);
}

static void write_head(pn_reference_writer *w, const pn_reference_head *head) {
    char bytes[HEAD_BYTES + sizeof head->name + HASH_BYTES];
    const uint32_t name_len = (uint32_t)strnlen(head->name, sizeof head->name),
                   numbers[] = {
                       VERSION, head->n_vocab, head->n_ctx, head->n_chunks, (uint32_t)head->precision,
                       name_len};
    size_t len = 0;
    put(bytes, &len, magic, sizeof magic);
    put(bytes, &len, numbers, sizeof numbers);
    put(bytes, &len, &head->vocabulary, sizeof head->vocabulary);
    put(bytes, &len, head->name, name_len);
    write_part(w, bytes, len);
}

pn_status pn_reference_create(const char *path, const pn_reference_head *head, pn_reference_writer **out,
                              pn_error *err) {
    pn_reference_writer *w = pn_alloc(PN_MEM_OTHER, 1, sizeof *w);
    if (!w) return pn_fail_memory(err, "reference", sizeof *w);
    w->file.fd = -1;
    w->n_chunk_bytes = chunk_bytes(head);
    w->chunk = pn_alloc(PN_MEM_OTHER, (size_t)w->n_chunk_bytes, 1);
    pn_status status = w->chunk ? pn_new_file_begin(path, &w->file, err)
                                : pn_fail_memory(err, "chunk of a reference", w->n_chunk_bytes);
    if (status != PN_OK) {
        pn_reference_writer_free(w);
        return status;
    }
    write_head(w, head);
    *out = w;
    return PN_OK;
}

void pn_reference_begin_chunk(pn_reference_writer *w, uint64_t tokens_hash) {
    w->len = 0;
    put(w->chunk, &w->len, &tokens_hash, sizeof tokens_hash);
}

void pn_reference_add(pn_reference_writer *w, const pn_summary *s) {
    const size_t n = s->n_top + s->n_drawn;
    float greatest = s->log_probs[0], span = 0;
    for (size_t i = 0; i < n; i++)
        if (greatest - s->log_probs[i] > span) span = greatest - s->log_probs[i];
    const float numbers[] = {s->target, s->tail, greatest, span};
    put(w->chunk, &w->len, numbers, sizeof numbers);
    put(w->chunk, &w->len, s->ids, n * sizeof *s->ids);
    for (size_t i = 0; i < n; i++) {
        double down = span > 0 ? (double)(greatest - s->log_probs[i]) / (double)span : 0;
        uint16_t code = (uint16_t)(down * CODE_MAX + 0.5);
        put(w->chunk, &w->len, &code, sizeof code);
    }
    if (w->len + HASH_BYTES == w->n_chunk_bytes) write_part(w, w->chunk, w->len);
}

pn_status pn_reference_finish(pn_reference_writer *w, pn_error *err) {
    return pn_new_file_finish(&w->file, err);
}

void pn_reference_writer_free(pn_reference_writer *w) {
    if (!w) return;
    pn_new_file_done(&w->file);
    pn_free(w->chunk);
    pn_free(w);
}

/* ---- reading ---- */

static pn_status fail_damaged(pn_error *err) {
    return pn_fail(err, PN_ERR_FORMAT, "the file is damaged: make the reference again");
}

static bool plausible(const pn_reference_head *h, uint32_t precision, uint32_t name_len) {
    return h->n_vocab >= 1 && h->n_vocab <= INT32_MAX && h->n_ctx >= PN_REFERENCE_CTX_MIN &&
           h->n_ctx <= PN_REFERENCE_CTX_MAX && h->n_chunks >= 1 && precision <= PN_PRECISION_FAST &&
           name_len < sizeof h->name;
}

static pn_status read_head(pn_reference *r, pn_error *err) {
    pn_cursor c = pn_cursor_make(r->map.data, r->map.len);
    pn_reference_head *h = &r->head;
    if (!pn_str_equal(pn_cursor_bytes(&c, sizeof magic), (pn_str){magic, sizeof magic}))
        return pn_fail_at(err, PN_ERR_FORMAT, 0,
                          "this is no reference of log-probabilities: it does not begin with PNLP");
    uint32_t version = pn_cursor_u32(&c);
    if (!c.failed && version != VERSION)
        return pn_fail_at(err, PN_ERR_UNSUPPORTED, sizeof magic,
                          "version %u of references is not known, only %d is", version, VERSION);
    h->n_vocab = pn_cursor_u32(&c);
    h->n_ctx = pn_cursor_u32(&c);
    h->n_chunks = pn_cursor_u32(&c);
    uint32_t precision = pn_cursor_u32(&c), name_len = pn_cursor_u32(&c);
    h->vocabulary = pn_cursor_u64(&c);
    PN_TRY(pn_cursor_check(&c, "header", err));
    if (!plausible(h, precision, name_len)) return fail_damaged(err);
    h->precision = (pn_precision)precision;
    pn_str name = pn_cursor_bytes(&c, name_len);
    pn_cursor_skip(&c, HASH_BYTES);
    PN_TRY(pn_cursor_check(&c, "header", err));
    memcpy(h->name, name.data, name_len);
    h->name[name_len] = '\0';
    r->chunks_at = c.pos;
    return PN_OK;
}

static pn_status check_length(const pn_reference *r, pn_error *err) {
    uint64_t length;
    if (!pn_mul_u64(r->head.n_chunks, r->chunk_bytes, &length) || !pn_add_u64(length, r->chunks_at, &length))
        return fail_damaged(err);
    if (r->map.len != length)
        return pn_fail(err, PN_ERR_FORMAT,
                       "its header asks for %llu bytes and %llu are there: the file is cut off or damaged",
                       (unsigned long long)length, (unsigned long long)r->map.len);
    return PN_OK;
}

/* The last bytes of the n at `part` are the checksum of the others. */
static bool checksum_fits(const uint8_t *part, uint64_t n, uint64_t *before) {
    pn_cursor c = pn_cursor_make(part + n - HASH_BYTES, HASH_BYTES);
    *before = checksum(part, n - HASH_BYTES, *before);
    return *before == pn_cursor_u64(&c);
}

static pn_status check_sums(const pn_reference *r, pn_error *err) {
    uint64_t before = 0;
    if (!checksum_fits(r->map.data, r->chunks_at, &before)) return fail_damaged(err);
    for (uint64_t i = 0; i < r->head.n_chunks; i++)
        if (!checksum_fits(r->map.data + r->chunks_at + i * r->chunk_bytes, r->chunk_bytes, &before))
            return fail_damaged(err);
    return PN_OK;
}

pn_status pn_reference_open(const char *path, pn_reference *out, pn_error *err) {
    pn_reference r = {0};
    pn_status status;
    PN_TRY(pn_map_open(path, &r.map, err));
    PN_TRY_GOTO(status, read_head(&r, err), failed);
    r.record_bytes = record_bytes(&r.head);
    r.chunk_bytes = chunk_bytes(&r.head);
    PN_TRY_GOTO(status, check_length(&r, err), failed);
    PN_TRY_GOTO(status, check_sums(&r, err), failed);
    *out = r;
    return PN_OK;
failed:
    pn_error_prefix(err, "%s", path);
    pn_reference_close(&r);
    return status;
}

void pn_reference_close(pn_reference *r) {
    pn_map_close(&r->map);
}

uint64_t pn_reference_tokens_hash(const pn_reference *r, size_t chunk) {
    pn_cursor c = pn_cursor_make(r->map.data + r->chunks_at + chunk * r->chunk_bytes, HASH_BYTES);
    return pn_cursor_u64(&c);
}

static bool is_log_prob(float x) {
    return x <= 1e-5f && isfinite(x); /* above 0 by rounding only */
}

bool pn_reference_get(const pn_reference *r, size_t chunk, size_t i, pn_summary *out) {
    uint64_t at = r->chunks_at + chunk * r->chunk_bytes + HASH_BYTES + i * r->record_bytes;
    pn_cursor c = pn_cursor_make(r->map.data + at, r->record_bytes);
    const size_t n = n_listed(&r->head);
    pn_summary s = {.n_top = pn_summary_top(r->head.n_vocab), .n_drawn = pn_summary_drawn(r->head.n_vocab)};
    s.target = pn_cursor_f32(&c);
    s.tail = pn_cursor_f32(&c);
    float greatest = pn_cursor_f32(&c), span = pn_cursor_f32(&c);
    if (!is_log_prob(s.target) || !is_log_prob(greatest) || !(s.tail >= 0 && s.tail <= 1) ||
        !(span >= 0 && isfinite(span)))
        return false;
    for (size_t k = 0; k < n; k++) {
        uint32_t id = pn_cursor_u32(&c);
        if (id >= r->head.n_vocab) return false;
        s.ids[k] = (int32_t)id;
    }
    for (size_t k = 0; k < n; k++)
        s.log_probs[k] = greatest - span * ((float)pn_cursor_u16(&c) / CODE_MAX);
    *out = s;
    return true;
}
