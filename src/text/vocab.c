/* SPDX-License-Identifier: Apache-2.0 */
#include "text/vocab.h"

#include "base/mem.h"

/* Far above any real vocabulary; keeps ids positive and table sizes from overflowing. */
#define MAX_TOKENS ((size_t)1 << 26)

/* Eight bytes at a time through a multiply and a fold (as in wyhash): pieces are short and there are many. */
static uint64_t mix(uint64_t a, uint64_t b) {
    __extension__ typedef unsigned __int128 u128;
    u128 product = (u128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_bytes(const char *text, size_t len) {
    uint64_t hash = 0x9E3779B97F4A7C15u ^ len;
    for (; len >= 8; text += 8, len -= 8) {
        uint64_t word;
        memcpy(&word, text, 8);
        hash = mix(hash ^ word, 0xD6E8FEB86659FD93u);
    }
    uint64_t tail = 0;
    memcpy(&tail, text, len);
    hash = mix(hash ^ tail, 0xA0761D6478BD642Fu);
    return hash;
}

/* A slot is an id + 1 with a few bits of the hash above it, which tell most other pieces without looking at
   them. */
#define ID_BITS 27
#define ID_MASK ((1u << ID_BITS) - 1)

_Static_assert(MAX_TOKENS <= ID_MASK, "an id + 1 must fit");

static uint32_t tag_of(uint64_t hash) {
    return (uint32_t)(hash >> 32) & ~ID_MASK;
}

static int32_t id_of(uint32_t slot) {
    return (int32_t)(slot & ID_MASK) - 1;
}

/* The slot that holds the piece, or the free one where it would go. The table is never full. */
static uint32_t *slot_of(const pn_vocab *vocab, const char *text, size_t len, uint64_t hash) {
    size_t mask = vocab->n_slots - 1;
    for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &vocab->slots[at];
        if (*slot == 0) return slot;
        if ((*slot & ~ID_MASK) == tag_of(hash) &&
            pn_str_equal(pn_vocab_piece(vocab, id_of(*slot)), (pn_str){text, len}))
            return slot;
    }
}

int32_t pn_vocab_find(const pn_vocab *vocab, const char *text, size_t len) {
    if (len == 0 || len > vocab->max_len) return -1;
    return id_of(*slot_of(vocab, text, len, hash_bytes(text, len)));
}

int32_t pn_vocab_find_plain(const pn_vocab *vocab, const char *text, size_t len) {
    int32_t id = pn_vocab_find(vocab, text, len);
    if (id < 0) return -1;
    pn_token_kind kind = pn_vocab_kind(vocab, id);
    return kind == PN_TOKEN_NORMAL || kind == PN_TOKEN_USER_DEFINED || kind == PN_TOKEN_UNUSED ? id : -1;
}

static pn_status check_spec(const pn_tokenizer_spec *spec, uint64_t *total_bytes, pn_error *err) {
    if (spec->n_tokens == 0 || !spec->tokens)
        return pn_fail(err, PN_ERR_FORMAT, "the vocabulary has no tokens");
    if (spec->n_tokens > MAX_TOKENS)
        return pn_fail(err, PN_ERR_FORMAT, "the vocabulary has %zu tokens, at most %zu are possible",
                       spec->n_tokens, MAX_TOKENS);
    uint64_t total = 0;
    for (size_t i = 0; i < spec->n_tokens; i++) {
        int32_t kind = spec->kinds ? spec->kinds[i] : PN_TOKEN_NORMAL;
        if (kind < PN_TOKEN_NORMAL || kind > PN_TOKEN_BYTE)
            return pn_fail(err, PN_ERR_FORMAT, "token %zu has the kind %d, expected 1 to 6", i, kind);
        total += spec->tokens[i].len;
    }
    if (total > UINT32_MAX)
        return pn_fail(err, PN_ERR_FORMAT,
                       "the vocabulary's pieces have %llu bytes together, at most 4 GiB are possible",
                       (unsigned long long)total);
    *total_bytes = total;
    return PN_OK;
}

/* Of tokens spelled alike the first is found; an empty piece never. */
static void place(pn_vocab *vocab, size_t i, uint64_t hash) {
    pn_str piece = pn_vocab_piece(vocab, (int32_t)i);
    if (piece.len == 0) return;
    uint32_t *slot = slot_of(vocab, piece.data, piece.len, hash);
    if (*slot == 0) *slot = ((uint32_t)i + 1) | tag_of(hash);
}

static void fill(pn_vocab *vocab, const pn_tokenizer_spec *spec) {
    enum { AHEAD = 16 }; /* slots asked of memory before they are needed */
    uint64_t hashes[AHEAD];
    uint32_t offset = 0;
    for (size_t i = 0; i < spec->n_tokens + AHEAD; i++) {
        if (i >= AHEAD) place(vocab, i - AHEAD, hashes[i % AHEAD]);
        if (i >= spec->n_tokens) continue;
        pn_str piece = spec->tokens[i];
        if (piece.len) memcpy(vocab->spellings + offset, piece.data, piece.len);
        offset += (uint32_t)piece.len;
        vocab->offsets[i + 1] = offset;
        vocab->kinds[i] = spec->kinds ? (uint8_t)spec->kinds[i] : PN_TOKEN_NORMAL;
        if (piece.len > vocab->max_len) vocab->max_len = piece.len;
        hashes[i % AHEAD] = hash_bytes(piece.data, piece.len);
        __builtin_prefetch(&vocab->slots[hashes[i % AHEAD] & (vocab->n_slots - 1)], 1);
    }
}

pn_status pn_vocab_init(pn_vocab *vocab, const pn_tokenizer_spec *spec, pn_error *err) {
    uint64_t total_bytes = 0;
    *vocab = (pn_vocab){0};
    PN_TRY(check_spec(spec, &total_bytes, err));
    size_t n_slots = 16;
    while (n_slots < 2 * spec->n_tokens)
        n_slots *= 2;
    vocab->n = spec->n_tokens;
    vocab->n_slots = n_slots;
    vocab->spellings = pn_alloc(PN_MEM_OTHER, (size_t)total_bytes, 1);
    vocab->offsets = pn_alloc(PN_MEM_OTHER, spec->n_tokens + 1, sizeof *vocab->offsets);
    vocab->kinds = pn_alloc(PN_MEM_OTHER, spec->n_tokens, sizeof *vocab->kinds);
    vocab->slots = pn_alloc(PN_MEM_OTHER, n_slots, sizeof *vocab->slots);
    if (!vocab->spellings || !vocab->offsets || !vocab->kinds || !vocab->slots) {
        pn_vocab_done(vocab);
        return pn_fail_memory(err, "token table", total_bytes + 4 * n_slots + 5 * spec->n_tokens);
    }
    fill(vocab, spec);
    return PN_OK;
}

void pn_vocab_done(pn_vocab *vocab) {
    pn_free(vocab->spellings);
    pn_free(vocab->offsets);
    pn_free(vocab->kinds);
    pn_free(vocab->slots);
    *vocab = (pn_vocab){0};
}

void pn_token_list_push(pn_token_list *list, int32_t id) {
    if (list->failed) return;
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        int32_t *ids = pn_realloc(list->ids, cap, sizeof *ids);
        if (!ids) {
            list->failed = true;
            return;
        }
        list->ids = ids;
        list->cap = cap;
    }
    list->ids[list->n++] = id;
}
