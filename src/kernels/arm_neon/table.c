/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_neon(pn_kernels *table) {
    table->quantise = pn_quantise_neon;
    table->matmul_codes = pn_matmul_codes_neon;
    table->codes_to_f32 = pn_codes_to_f32_neon;
    table->join_split = pn_join_split_neon;
    table->f16_to_f32 = pn_f16_to_f32_neon;
    table->bf16_to_f32 = pn_bf16_to_f32_neon;
    table->matmul_f32 = pn_matmul_f32_neon;
    table->attn_scores_f16 = pn_attn_scores_f16_neon;
    table->attn_scores_f32 = pn_attn_scores_f32_neon;
    table->attn_softmax = pn_attn_softmax_neon;
    table->attn_mix_f16 = pn_attn_mix_f16_neon;
    table->attn_mix_f32 = pn_attn_mix_f32_neon;
    table->attn_scores_coded = pn_attn_scores_coded_neon;
    table->attn_mix_coded = pn_attn_mix_coded_neon;
    table->kv_pack = pn_kv_pack_neon;
    table->max_f32 = pn_max_f32_neon;
    table->exp_sum_f32 = pn_exp_sum_f32_neon;
    table->rms_norm_f32 = pn_rms_norm_f32_neon;
    table->rope_pairs_f32 = pn_rope_pairs_f32_neon;
    table->rope_halves_f32 = pn_rope_halves_f32_neon;
    table->silu_mul_f32 = pn_silu_mul_f32_neon;
    table->gelu_mul_f32 = pn_gelu_mul_f32_neon;
    table->add_f32 = pn_add_f32_neon;
    table->scale_f32 = pn_scale_f32_neon;
    table->f32_to_f16 = pn_f32_to_f16_neon;
    table->read_streams = pn_read_streams_neon;
    table->peak_codes = pn_peak_codes_neon;
    table->peak_f32 = pn_peak_f32_neon;
#define PN_PANEL(name, ...)                                                                                  \
    table->few[PN_PANEL_##name] = pn_few_##name##_neon;                                                      \
    table->expand[PN_PANEL_##name] = pn_expand_##name##_neon;
#include "quant/panels.inc"
#undef PN_PANEL
}
