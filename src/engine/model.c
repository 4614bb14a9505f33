/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include "base/cpu.h"

static void destroy(pn_model *m) {
    if (m->loaded) pn_mem_unload(m->info.weights_bytes, m->info.mapped_bytes);
    pn_plan_release_model(m);
    pn_disk_free(m->disk);
    pn_model_free_pins(m);
    pn_model_free_stores(m);
    pn_pool_free(m->pool);
    pn_template_free(m->chat_template);
    pn_tokenizer_free(m->tokenizer);
    pn_decoder_free(m->decoder);
    pn_arena_done(&m->strings);
    pn_free(m);
}

static pn_status copy_string(pn_model *m, const char *key, const char **out, pn_error *err) {
    pn_str text;
    PN_TRY(pn_gguf_get_str_or(pn_weights_file(m->decoder->weights), key, "", &text, err));
    *out = pn_arena_copy(&m->strings, text.data, text.len);
    return *out ? PN_OK : pn_fail_memory(err, key, text.len);
}

static pn_status fill_info(pn_model *m, pn_error *err) {
    const pn_decoder *d = m->decoder;
    pn_model_info *info = &m->info;
    PN_TRY(copy_string(m, "general.architecture", &info->architecture, err));
    PN_TRY(copy_string(m, "general.name", &info->name, err));
    info->n_layer = d->h.n_layer;
    info->n_embd = d->h.n_embd;
    info->n_head = d->h.n_head;
    info->n_head_kv = d->h.n_head_kv;
    info->head_dim = d->h.head_dim;
    info->n_vocab = d->n_vocab;
    info->n_ctx_train = d->h.n_ctx_train;
    info->kernels = pn_cpu_feature_name(pn_cpu_features());
    info->bos_id = m->roles.bos;
    info->eos_id = m->roles.eos;
    info->has_chat_template = info->template_note[0] == '\0';
    info->weights_bytes = pn_weights_matrix_bytes(d->weights);
    info->mapped_bytes = info->weights_bytes - pn_weights_packed_bytes(d->weights);
    info->decode_bytes_per_token = pn_decoder_bytes_per_token(d);
    return PN_OK;
}

/* What opening has added, and the part of the file that is no weight but was read. Something else that the
   process allocates meanwhile counts in: good enough for a plan. */
static uint64_t count_tables(const pn_model *m, uint64_t held_before) {
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER),
             file = pn_gguf_file_bytes(pn_weights_file(m->decoder->weights));
    return (held > held_before ? held - held_before : 0) + (file - pn_weights_bytes(m->decoder->weights));
}

static pn_status open_decoder(pn_model *m, const char *path, pn_error *err) {
    pn_weights *weights;
    PN_TRY(pn_weights_open(path, &weights, err));
    pn_status status = pn_decoder_bind(weights, &m->decoder, err);
    if (status != PN_OK) {
        pn_weights_close(weights);
        pn_error_prefix(err, "%s", path);
    }
    return status;
}

static pn_status open_text(pn_model *m, pn_error *err) {
    const pn_gguf *file = pn_weights_file(m->decoder->weights);
    PN_TRY(pn_vocab_load(file, m->decoder->n_vocab, &m->tokenizer, &m->roles, err));
    return pn_chat_template_load(m, file, err);
}

/* All of opening but reading the weights. */
static pn_status prepare(const char *path, const pn_model_options *options, pn_model **out, pn_error *err) {
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
    pn_model *m = pn_alloc(PN_MEM_OTHER, 1, sizeof *m);
    if (!m) return pn_fail_memory(err, "model", sizeof *m);
    atomic_init(&m->n_owners, 1);
    pn_arena_init(&m->strings, 0);
    m->kernels = pn_kernels_host();
    m->prefix_cache = options->prefix_cache;
    if (pthread_mutex_init(&m->stores_lock, NULL) != 0) {
        pn_free(m);
        return pn_fail(err, PN_ERR_MEMORY, "no memory for the locks of a model");
    }
    pn_status status;
    m->path = pn_arena_copy(&m->strings, path, strlen(path));
    if (!m->path) PN_TRY_GOTO(status, pn_fail_memory(err, "name of the model", strlen(path)), fail);
    PN_TRY_GOTO(status, pn_cpu_check(err), fail);
    PN_TRY_GOTO(status, pn_pool_create(pn_threads_most(options), &m->pool, err), fail);
    PN_TRY_GOTO(status, open_decoder(m, path, err), fail);
    status = open_text(m, err);
    if (status == PN_OK) status = fill_info(m, err);
    if (status != PN_OK) {
        pn_error_prefix(err, "%s", path);
        goto fail;
    }
    PN_TRY_GOTO(status, pn_kv_layers_init(m, options, err), fail);
    PN_TRY_GOTO(status, pn_tiers_init(m, options, err), fail);
    m->info.tables_bytes = count_tables(m, held);
    *out = m;
    return PN_OK;
fail:
    destroy(m);
    return status;
}

/* The folder and the file that keys and values are to be found in, before the weights' part of the mapping is
   given back. */
static pn_status open_disk(pn_model *m, const pn_model_options *o, pn_error *err) {
    if (!o->cache_dir && !o->baked) return PN_OK;
    const pn_kv_shape shape = pn_decoder_kv_shape(m->decoder, PN_KV_F16);
    PN_TRY(pn_model_identify(m, err));
    return pn_disk_open(o, m->identity, &shape, &m->disk, err);
}

static void load(pn_model *m, const pn_model_options *options) {
    pn_weights_pack(m->decoder->weights, m->pool);
    pn_mem_load(m->info.weights_bytes, m->info.mapped_bytes);
    m->loaded = true;
    m->threads = pn_threads_choose(m, options);
    m->info.n_threads = m->threads.prefill;
    m->info.n_threads_decode = m->threads.decode;
}

pn_status pn_model_open(const char *path, const pn_model_options *options, pn_model **out, pn_error *err) {
    if (!path || !out)
        return pn_fail(err, PN_ERR_ARGUMENT, "pn_model_open needs a path and a place for the model");
    const pn_model_options none = {0};
    pn_model *m;
    if (!options) options = &none;
    PN_TRY(prepare(path, options, &m, err));
    pn_status status = pn_plan_claim_model(m, options->session, err);
    if (status == PN_OK) status = open_disk(m, options, err);
    if (status != PN_OK) {
        destroy(m);
        return status;
    }
    load(m, options);
    *out = m;
    return PN_OK;
}

pn_status pn_plan_file(const char *path, const pn_model_options *options, const pn_session_options *session,
                       pn_plan *out, pn_error *err) {
    const pn_model_options none = {0};
    pn_model *m;
    PN_TRY(prepare(path, options ? options : &none, &m, err));
    const pn_status status = pn_session_plan(m, session, out, err);
    destroy(m);
    return status;
}

pn_model *pn_model_share(pn_model *model) {
    atomic_fetch_add(&model->n_owners, 1);
    return model;
}

void pn_model_close(pn_model *model) {
    if (model && atomic_fetch_sub(&model->n_owners, 1) == 1) destroy(model);
}

void pn_model_get_info(const pn_model *model, pn_model_info *out) {
    *out = model->info;
}

uint64_t pn_model_macs(const pn_model *model, uint64_t depth, uint64_t n_tok) {
    return pn_decoder_macs(model->decoder, depth, n_tok);
}

uint64_t pn_model_decode_bytes(const pn_model *model, pn_kv_type kv_type, uint64_t depth) {
    return model->info.decode_bytes_per_token + pn_decoder_kv_bytes_read(model->decoder, kv_type, depth);
}

/* ---- text ---- */

void pn_text_free(pn_text *text) {
    if (!text) return;
    pn_free(text->data);
    *text = (pn_text){0};
}

void pn_tokens_free(pn_tokens *tokens) {
    if (!tokens) return;
    pn_free(tokens->ids);
    *tokens = (pn_tokens){0};
}

pn_status pn_tokenize(const pn_model *model, const char *text, size_t len, unsigned flags, pn_tokens *out,
                      pn_error *err) {
    pn_range all = {0, len};
    pn_encode_options options = {.add_bos = flags & PN_TOKENIZE_BOS,
                                 .trusted = &all,
                                 .n_trusted = flags & PN_TOKENIZE_CONTROL ? 1 : 0};
    return pn_tokenizer_encode(model->tokenizer, text, len, &options, out, err);
}

pn_status pn_detokenize(const pn_model *model, const int32_t *ids, size_t n, bool with_control, pn_text *out,
                        pn_error *err) {
    pn_buf buf;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_status status = pn_tokenizer_decode(model->tokenizer, ids, n, with_control, &buf, err);
    pn_text joined = {0};
    if (status == PN_OK) {
        joined.data = pn_buf_take(&buf, &joined.len);
        if (!joined.data) status = pn_fail_memory(err, "text", buf.len);
    }
    if (status == PN_OK) *out = joined;
    pn_buf_done(&buf);
    return status;
}
