/* SPDX-License-Identifier: Apache-2.0 */
#include "format/name_index.h"

#include "base/mem.h"
#include "base/rng.h"

static uint64_t rotl(uint64_t x, int bits) {
    return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t v[4], int n) {
    while (n-- > 0) {
        v[0] += v[1], v[1] = rotl(v[1], 13) ^ v[0], v[0] = rotl(v[0], 32);
        v[2] += v[3], v[3] = rotl(v[3], 16) ^ v[2];
        v[0] += v[3], v[3] = rotl(v[3], 21) ^ v[0];
        v[2] += v[1], v[1] = rotl(v[1], 17) ^ v[2], v[2] = rotl(v[2], 32);
    }
}

static uint64_t load_le(const uint8_t *bytes, size_t n) {
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static void sip_absorb(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_rounds(v, 2);
    v[0] ^= word;
}

uint64_t pn_siphash(const uint64_t key[2], const void *data, size_t len) {
    const uint8_t *bytes = data;
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                     key[1] ^ 0x7465646279746573u};
    size_t at = 0;
    for (; len - at >= 8; at += 8)
        sip_absorb(v, load_le(bytes + at, 8));
    sip_absorb(v, (uint64_t)len << 56 | load_le(bytes + at, len - at));
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static pn_str record_name(const pn_name_index *index, size_t i) {
    return *(const pn_str *)(const void *)(index->records + i * index->record_bytes);
}

/* The slot that holds the name, or the empty one where it belongs. */
static uint32_t *find_slot(const pn_name_index *index, pn_str name) {
    size_t at = (size_t)pn_siphash(index->key, name.data, name.len) & index->mask;
    while (index->slots[at] != 0 && !pn_str_equal(record_name(index, index->slots[at] - 1), name))
        at = (at + 1) & index->mask;
    return &index->slots[at];
}

pn_status pn_name_index_init(pn_name_index *index, const void *records, size_t n, size_t record_bytes,
                             size_t *duplicate, pn_error *err) {
    size_t n_slots = 2;
    while (n_slots < 2 * n)
        n_slots *= 2;
    uint32_t *slots = pn_alloc(PN_MEM_OTHER, n_slots, sizeof *slots);
    if (!slots) return pn_fail_memory(err, "name index", n_slots * sizeof *slots);
    *index = (pn_name_index){.slots = slots,
                             .mask = n_slots - 1,
                             .key = {pn_rng_fresh_seed(), pn_rng_fresh_seed()},
                             .records = records,
                             .record_bytes = record_bytes};
    *duplicate = PN_NAME_NONE;
    for (size_t i = 0; i < n; i++) {
        uint32_t *slot = find_slot(index, record_name(index, i));
        if (*slot == 0) {
            *slot = (uint32_t)i + 1;
        } else if (*duplicate == PN_NAME_NONE) {
            *duplicate = i;
        }
    }
    return PN_OK;
}

void pn_name_index_done(pn_name_index *index) {
    pn_free(index->slots);
    *index = (pn_name_index){0};
}

size_t pn_name_index_find(const pn_name_index *index, pn_str name) {
    uint32_t slot = *find_slot(index, name);
    return slot != 0 ? slot - 1 : PN_NAME_NONE;
}
