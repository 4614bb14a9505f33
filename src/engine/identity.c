/* SPDX-License-Identifier: Apache-2.0 */
/* One number for what keys and values depend on beside the tokens, their type and the precision: the file,
   and how this program computes on this machine. */
#include "engine/engine.h"

#include "base/cpu.h"
#include "base/notes.h"
#include "weights/hash.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

/* To be raised with every change of the code that changes the bits of keys and values. */
#define BITS  1
#define NOTES "models"

static uint64_t fold(uint64_t hash, const void *bytes, size_t n) {
    return XXH3_64bits_withSeed(bytes, n, hash);
}

static uint64_t fold_text(uint64_t hash, const char *text) {
    return fold(hash, text, strlen(text) + 1);
}

/* ---- the file ---- */

static uint64_t fold_value(uint64_t hash, const pn_gguf_value *v) {
    hash = fold(hash, v->key.data, v->key.len);
    hash = fold(hash, &v->type, sizeof v->type);
    if (v->type == PN_GGUF_STRING) return fold(hash, v->as.str.data, v->as.str.len);
    if (v->type == PN_GGUF_ARRAY) {
        hash = fold(hash, &v->as.array.type, sizeof v->as.array.type);
        return fold(hash, v->as.array.bytes.data, v->as.array.bytes.len);
    }
    return fold(hash, &v->as.u, sizeof v->as.u);
}

static uint64_t fold_settings(uint64_t hash, const pn_gguf *file) {
    for (size_t i = 0; i < pn_gguf_n_keys(file); i++)
        hash = fold_value(hash, pn_gguf_key_at(file, i));
    for (size_t i = 0; i < pn_gguf_n_tensors(file); i++)
        hash = fold(hash, pn_gguf_tensor_at(file, i)->dims, sizeof(uint64_t[PN_GGUF_MAX_DIMS]));
    return hash;
}

/* What tells whether a file is as it was, by which its hash is noted for the next time. False where nothing
   does: of one that was written just now, a change might not show in its time. */
#define KEY_MAX 128
static bool describe(const char *path, char key[KEY_MAX]) {
    struct stat st;
    struct timespec now;
    if (stat(path, &st) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0 || now.tv_sec - st.st_mtime < 3)
        return false;
    snprintf(key, KEY_MAX, "%llx:%llx:%llx:%llx.%lx", (unsigned long long)st.st_dev,
             (unsigned long long)st.st_ino, (unsigned long long)st.st_size, (unsigned long long)st.st_mtime,
             (unsigned long)st.st_mtim.tv_nsec);
    return true;
}

static bool noted(const char *key, pn_tensors_hash *out) {
    char value[64], *end;
    if (!pn_notes_get(NOTES, key, value, sizeof value)) return false;
    out->high = strtoull(value, &end, 16);
    if (*end != ':') return false;
    out->low = strtoull(end + 1, &end, 16);
    return *end == '\0';
}

/* All bytes of the tensors: what is computed anew where they were changed in place must not match. */
static pn_status hash_tensors(const pn_model *m, pn_tensors_hash *out, pn_error *err) {
    const pn_gguf *file = pn_weights_file(m->decoder->weights);
    char key[KEY_MAX], value[64];
    const bool known = pn_gguf_n_shards(file) == 1 && describe(m->path, key);
    if (known && noted(key, out)) return PN_OK;
    PN_TRY(pn_tensors_hash_of(file, m->pool, out, err));
    snprintf(value, sizeof value, "%llx:%llx", (unsigned long long)out->high, (unsigned long long)out->low);
    if (known) pn_notes_put(NOTES, key, value);
    return PN_OK;
}

/* ---- the arithmetic ---- */

/* Angles of rotation are the system's work. */
static uint64_t fold_functions(uint64_t hash) {
    for (int i = 0; i < 256; i++) {
        const float angle = 0.0137f * (float)(i * i), values[] = {cosf(angle), sinf(angle)};
        hash = fold(hash, values, sizeof values);
    }
    return hash;
}

static pn_status compute(const pn_model *m, uint64_t *out, pn_error *err) {
    const uint32_t bits = BITS;
    pn_tensors_hash tensors;
    PN_TRY(hash_tensors(m, &tensors, err));
    uint64_t hash = fold(fold(0, &bits, sizeof bits), &tensors, sizeof tensors);
    hash = fold_settings(hash, pn_weights_file(m->decoder->weights));
    hash = fold_text(hash, PN_VERSION_STRING);
    hash = fold_text(hash, pn_kernels_arithmetic(pn_cpu_features()));
    hash = pn_kv_layers_hash(m, fold_functions(hash));
    *out = hash ? hash : 1;
    return PN_OK;
}

pn_status pn_model_identify(pn_model *m, pn_error *err) {
    pn_status status = PN_OK;
    pthread_mutex_lock(&m->stores_lock);
    if (m->identity == 0) status = compute(m, &m->identity, err);
    pthread_mutex_unlock(&m->stores_lock);
    return status;
}
