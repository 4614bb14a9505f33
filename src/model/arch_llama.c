/* SPDX-License-Identifier: Apache-2.0 */
/* Llama (Touvron et al., 2023) and all that is built like it: Llama 2 and 3, SmolLM2, Mistral 7B, TinyLlama.
   GGUF files hold the rows of q and k in the order that rotates neighbouring pairs. */
#include "model/arch.h"

static pn_status read_hparams(const pn_gguf *file, pn_hparams *out, pn_error *err) {
    static const char *const refused[] = {"expert_count",   "attention.scale", "logit_scale",
                                          "residual_scale", "embedding_scale", "attention.clamp_kqv"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        PN_TRY(pn_arch_refuse_key(file, "llama", refused[i], err));
    uint64_t window;
    PN_TRY(pn_gguf_get_u64_or(file, "llama.attention.sliding_window", 0, INT32_MAX, 0, &window, err));
    PN_TRY(pn_arch_read_common(file, "llama", out, err));
    out->window = (int)window; /* Mistral 7B v0.1: every layer is local */
    out->window_pattern = INT32_MAX;
    return PN_OK;
}

const pn_arch pn_arch_llama = {"llama", read_hparams};
