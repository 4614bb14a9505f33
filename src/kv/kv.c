/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/kv.h"

#include "base/mem.h"

#include <string.h>

size_t pn_kv_element_bytes(pn_kv_type type) {
    return type == PN_KV_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* False when the shape overflows. */
static bool block_bytes_of(const pn_kv_shape *shape, uint64_t *out) {
    uint64_t bytes = 2 * PN_KV_BLOCK * pn_kv_element_bytes(shape->type); /* keys and values */
    return pn_mul_u64(bytes, (uint64_t)shape->n_layer, &bytes) &&
           pn_mul_u64(bytes, (uint64_t)shape->n_head_kv, &bytes) &&
           pn_mul_u64(bytes, (uint64_t)shape->head_dim, out);
}

static size_t n_blocks_of(size_t n_tokens) {
    return n_tokens / PN_KV_BLOCK + (n_tokens % PN_KV_BLOCK != 0);
}

bool pn_kv_plan_bytes(const pn_kv_shape *shape, size_t max_tokens, uint64_t *out) {
    uint64_t block_bytes;
    if (!block_bytes_of(shape, &block_bytes)) return false;
    pn_block_plan plan = pn_block_plan_of(block_bytes, n_blocks_of(max_tokens));
    return pn_block_plan_bytes(&plan, out);
}

pn_status pn_kv_init(pn_kv *kv, const pn_kv_shape *shape, size_t max_tokens, pn_error *err) {
    pn_kv fresh = {.shape = *shape,
                   .element_bytes = pn_kv_element_bytes(shape->type),
                   .cap_blocks = n_blocks_of(max_tokens)};
    uint64_t block_bytes;
    if (!block_bytes_of(shape, &block_bytes))
        return pn_fail(err, PN_ERR_LIMIT, "the KV cache of this model does not fit in 64 bits");
    PN_TRY(pn_block_pool_init(&fresh.pool, block_bytes, fresh.cap_blocks, err));
    fresh.blocks = pn_alloc(PN_MEM_KV, fresh.cap_blocks, sizeof *fresh.blocks);
    if (!fresh.blocks) {
        pn_block_pool_done(&fresh.pool);
        return pn_fail_memory(err, "KV block table", fresh.cap_blocks * sizeof *fresh.blocks);
    }
    *kv = fresh;
    return PN_OK;
}

void pn_kv_done(pn_kv *kv) {
    pn_kv_truncate(kv, 0);
    pn_free(kv->blocks);
    pn_block_pool_done(&kv->pool);
    *kv = (pn_kv){0};
}

static void shrink(pn_kv *kv, size_t n_blocks) {
    while (kv->n_blocks > n_blocks)
        pn_block_free(&kv->pool, kv->blocks[--kv->n_blocks]);
}

pn_status pn_kv_reserve(pn_kv *kv, size_t n_tokens, pn_error *err) {
    size_t want = n_blocks_of(n_tokens), had = kv->n_blocks;
    if (want > kv->cap_blocks)
        return pn_fail(err, PN_ERR_LIMIT, "%zu tokens do not fit the context of %zu", n_tokens,
                       kv->cap_blocks * PN_KV_BLOCK);
    while (kv->n_blocks < want) {
        unsigned char *block = pn_block_take(&kv->pool);
        if (!block) {
            shrink(kv, had);
            return pn_fail_memory(err, "KV cache block", kv->pool.plan.block_bytes);
        }
        kv->blocks[kv->n_blocks++] = block;
    }
    return PN_OK;
}

void pn_kv_truncate(pn_kv *kv, size_t n_tokens) {
    if (n_tokens < kv->n_tokens) kv->n_tokens = n_tokens;
    shrink(kv, n_blocks_of(kv->n_tokens));
}

/* Byte offset, inside a block, of the run of keys of one layer and head; the values follow the keys of all
 * heads. */
static size_t run_offset(const pn_kv *kv, int layer, int is_value, int head) {
    size_t run = PN_KV_BLOCK * (size_t)kv->shape.head_dim * kv->element_bytes;
    return (((size_t)layer * 2 + (size_t)is_value) * (size_t)kv->shape.n_head_kv + (size_t)head) * run;
}

const void *pn_kv_keys(const pn_kv *kv, int layer, int head, size_t block) {
    return kv->blocks[block] + run_offset(kv, layer, 0, head);
}

const void *pn_kv_values(const pn_kv *kv, int layer, int head, size_t block) {
    return kv->blocks[block] + run_offset(kv, layer, 1, head);
}

static void store_value(const pn_kv *kv, const pn_kernels *kernels, const float *src, void *run,
                        size_t slot) {
    size_t n = (size_t)kv->shape.head_dim;
    if (kv->shape.type == PN_KV_F32)
        memcpy((float *)run + slot * n, src, n * sizeof *src);
    else
        kernels->f32_to_f16(src, (uint16_t *)run + slot * n, n);
}

/* A key is a column of its run. */
static void store_key(const pn_kv *kv, const pn_kernels *kernels, const float *src, void *run, size_t slot) {
    size_t dim = (size_t)kv->shape.head_dim;
    if (kv->shape.type == PN_KV_F32) {
        for (size_t d = 0; d < dim; d++)
            ((float *)run)[d * PN_KV_BLOCK + slot] = src[d];
        return;
    }
    uint16_t halves[64];
    for (size_t d = 0; d < dim; d += 64) {
        size_t n = dim - d < 64 ? dim - d : 64;
        kernels->f32_to_f16(src + d, halves, n);
        for (size_t i = 0; i < n; i++)
            ((uint16_t *)run)[(d + i) * PN_KV_BLOCK + slot] = halves[i];
    }
}

void pn_kv_write(pn_kv *kv, const pn_kernels *kernels, int layer, int head, size_t position, const float *k,
                 const float *v) {
    size_t slot = position % PN_KV_BLOCK;
    unsigned char *block = kv->blocks[position / PN_KV_BLOCK];
    store_key(kv, kernels, k, block + run_offset(kv, layer, 0, head), slot);
    store_value(kv, kernels, v, block + run_offset(kv, layer, 1, head), slot);
}

void pn_kv_expect_write(const pn_kv *kv, int layer, int head, size_t position) {
    const size_t slot = position % PN_KV_BLOCK, dim = (size_t)kv->shape.head_dim, bytes = kv->element_bytes;
    const unsigned char *block = kv->blocks[position / PN_KV_BLOCK];
    const unsigned char *keys = block + run_offset(kv, layer, 0, head) + slot * bytes;
    const unsigned char *value = block + run_offset(kv, layer, 1, head) + slot * dim * bytes;
    for (size_t d = 0; d < dim; d++)
        __builtin_prefetch(keys + d * PN_KV_BLOCK * bytes, 1);
    for (size_t at = 0; at < dim * bytes; at += 64)
        __builtin_prefetch(value + at, 1);
}

uint64_t pn_kv_bytes(const pn_kv *kv) {
    return pn_block_pool_bytes(&kv->pool);
}
