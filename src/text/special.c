/* SPDX-License-Identifier: Apache-2.0 */
#include "text/special.h"

#include "base/mem.h"
#include "text/spm.h"

#include <stdlib.h>

static int compare_entries(const void *a, const void *b) {
    const pn_special_entry *x = a, *y = b;
    size_t common = x->key.len < y->key.len ? x->key.len : y->key.len;
    int order = memcmp(x->key.data, y->key.data, common);
    if (order != 0) return order;
    if (x->key.len != y->key.len) return x->key.len < y->key.len ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static bool is_special(const pn_vocab *vocab, int32_t id) {
    pn_token_kind kind = pn_vocab_kind(vocab, id);
    return (kind == PN_TOKEN_CONTROL || kind == PN_TOKEN_USER_DEFINED) && pn_vocab_piece(vocab, id).len > 0;
}

static pn_status count_special(const pn_vocab *vocab, size_t *n, size_t *n_bytes, pn_error *err) {
    *n = *n_bytes = 0;
    for (int32_t id = 0; id < (int32_t)vocab->n; id++) {
        if (!is_special(vocab, id)) continue;
        size_t len = pn_vocab_piece(vocab, id).len;
        if (len > PN_SPECIAL_MAX_LEN)
            return pn_fail(err, PN_ERR_FORMAT,
                           "the control or user-defined token %d has %zu bytes, at most %d are possible", id,
                           len, PN_SPECIAL_MAX_LEN);
        *n += 1;
        *n_bytes += len * PN_SPM_MARKER_LEN;
    }
    return PN_OK;
}

/* Copies the piece with every space spelled as the marker; returns the bytes written. */
static size_t mark(char *out, pn_str piece) {
    char *at = out;
    for (size_t i = 0; i < piece.len; i++) {
        if (piece.data[i] == ' ') {
            memcpy(at, PN_SPM_MARKER, PN_SPM_MARKER_LEN);
            at += PN_SPM_MARKER_LEN;
        } else {
            *at++ = piece.data[i];
        }
    }
    return (size_t)(at - out);
}

static void fill(pn_special *s, const pn_vocab *vocab) {
    char *storage = s->marked_keys;
    for (int32_t id = 0; id < (int32_t)vocab->n; id++) {
        if (!is_special(vocab, id)) continue;
        pn_str key = pn_vocab_piece(vocab, id);
        if (s->marked) {
            size_t len = mark(storage, key);
            key = (pn_str){storage, len};
            storage += len;
        }
        s->entries[s->n++] = (pn_special_entry){key, id, pn_vocab_kind(vocab, id) == PN_TOKEN_CONTROL};
        s->begins[(uint8_t)key.data[0]] = true;
    }
    if (s->marked && s->begins[(uint8_t)PN_SPM_MARKER[0]]) s->begins[' '] = true;
}

static void sort_and_drop_doubles(pn_special *s) {
    size_t kept = 0;
    if (s->n == 0) return;
    qsort(s->entries, s->n, sizeof *s->entries, compare_entries);
    for (size_t i = 1; i < s->n; i++) {
        if (!pn_str_equal(s->entries[i].key, s->entries[kept].key)) s->entries[++kept] = s->entries[i];
    }
    s->n = kept + 1;
}

pn_status pn_special_init(pn_special *s, const pn_vocab *vocab, bool marked, pn_error *err) {
    size_t n, n_bytes;
    *s = (pn_special){.marked = marked};
    PN_TRY(count_special(vocab, &n, &n_bytes, err));
    s->entries = pn_alloc(PN_MEM_OTHER, n, sizeof *s->entries);
    if (marked) s->marked_keys = pn_alloc(PN_MEM_OTHER, n_bytes, 1);
    if (!s->entries || (marked && !s->marked_keys)) {
        pn_special_done(s);
        return pn_fail_memory(err, "table of control tokens", n * sizeof *s->entries + n_bytes);
    }
    fill(s, vocab);
    sort_and_drop_doubles(s);
    return PN_OK;
}

void pn_special_done(pn_special *s) {
    pn_free(s->entries);
    pn_free(s->marked_keys);
    *s = (pn_special){0};
}

/* The first of entries [lo, hi), which share their first `depth` bytes, whose next is at least `byte`. */
static size_t lower_bound(const pn_special *s, size_t lo, size_t hi, size_t depth, int byte) {
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        pn_str key = s->entries[mid].key;
        if (key.len <= depth || (uint8_t)key.data[depth] < byte)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t pn_special_match(const pn_special *s, const char *text, size_t len, size_t control_len, int32_t *id) {
    if (len == 0 || !s->begins[(uint8_t)text[0]]) return 0;
    size_t lo = 0, hi = s->n, depth = 0, longest = 0;
    for (size_t pos = 0; pos < len && lo < hi; pos++) {
        bool space = s->marked && text[pos] == ' ';
        const char *bytes = space ? PN_SPM_MARKER : text + pos;
        for (size_t i = 0; i < (space ? PN_SPM_MARKER_LEN : 1); i++, depth++) {
            lo = lower_bound(s, lo, hi, depth, (uint8_t)bytes[i]);
            hi = lower_bound(s, lo, hi, depth, (uint8_t)bytes[i] + 1);
        }
        if (lo == hi) break;
        const pn_special_entry *entry = &s->entries[lo];
        if (entry->key.len == depth && (!entry->control || pos + 1 <= control_len)) {
            longest = pos + 1;
            *id = entry->id;
        }
    }
    return longest;
}
