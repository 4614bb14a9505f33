/* SPDX-License-Identifier: Apache-2.0 */
/* Gemma 3 (Gemma Team, 2025): norms on q and k and after each part, five local layers of a window to one
   global layer, a RoPE base of their own for the local ones, embeddings scaled by sqrt(n_embd). */
#include "model/arch.h"

#include <math.h>

static pn_status read_window(const pn_gguf *file, pn_hparams *h, pn_error *err) {
    uint64_t window, pattern;
    PN_TRY(pn_gguf_get_u64_or(file, "gemma3.attention.sliding_window", 0, INT32_MAX, 0, &window, err));
    PN_TRY(
        pn_gguf_get_u64_or(file, "gemma3.attention.sliding_window_pattern", 1, INT32_MAX, 6, &pattern, err));
    h->window = (int)window;
    h->window_pattern = (int)pattern;
    /* Local layers were trained with a base of 10,000 and never scaled. */
    h->rope[PN_LAYER_LOCAL].scale = 1.0;
    return pn_gguf_get_f64_or(file, "gemma3.rope.freq_base_swa", 10000.0, &h->rope[PN_LAYER_LOCAL].base, err);
}

static pn_status read_hparams(const pn_gguf *file, pn_hparams *out, pn_error *err) {
    static const char *const refused[] = {"final_logit_softcapping", "attn_logit_softcapping",
                                          "expert_count"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        PN_TRY(pn_arch_refuse_key(file, "gemma3", refused[i], err));
    pn_hparams h;
    PN_TRY(pn_arch_read_common(file, "gemma3", &h, err));
    PN_TRY(read_window(file, &h, err));
    h.activation = PN_ACTIVATION_GELU;
    h.rope_halves = true;
    h.qk_norm = true;
    h.post_norm = true;
    h.embedding_scale = sqrtf((float)h.n_embd);
    /* The 27B model alone scales by the width per head rather than by the head size; files carry no key for
     * it. */
    if (h.n_layer == 62) h.attention_scale = 1.0f / sqrtf((float)h.n_embd / (float)h.n_head);
    *out = h;
    return PN_OK;
}

const pn_arch pn_arch_gemma3 = {"gemma3", read_hparams};
