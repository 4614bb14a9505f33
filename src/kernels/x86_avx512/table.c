/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"

void pn_kernels_fill_avx512(pn_kernels *table) {
    table->attn_scores_f16 = pn_attn_scores_f16_avx512;
    table->attn_scores_f32 = pn_attn_scores_f32_avx512;
    table->attn_softmax = pn_attn_softmax_avx512;
    table->attn_mix_f16 = pn_attn_mix_f16_avx512;
    table->attn_mix_f32 = pn_attn_mix_f32_avx512;
    table->attn_scores_coded = pn_attn_scores_coded_avx512;
    table->attn_mix_coded = pn_attn_mix_coded_avx512;
    table->kv_pack = pn_kv_pack_avx512;
    table->exp_sum_f32 = pn_exp_sum_f32_avx512;
    table->rms_norm_f32 = pn_rms_norm_f32_avx512;
    table->rope_pairs_f32 = pn_rope_pairs_f32_avx512;
    table->rope_halves_f32 = pn_rope_halves_f32_avx512;
    table->silu_mul_f32 = pn_silu_mul_f32_avx512;
    table->gelu_mul_f32 = pn_gelu_mul_f32_avx512;
    table->read_streams = pn_read_streams_avx512;
    table->quantise = pn_quantise_avx512;
    table->find_range = pn_find_range_avx512;
    table->round_codes = pn_round_codes_avx512;
    table->matmul_f32 = pn_matmul_f32_avx512;
    table->codes_to_f32 = pn_codes_to_f32_avx512;
    table->f16_to_f32 = pn_f16_to_f32_avx512;
    table->bf16_to_f32 = pn_bf16_to_f32_avx512;
#define PN_PANEL(name, ...) table->expand[PN_PANEL_##name] = pn_expand_##name##_avx512;
#include "quant/panels.inc"
#undef PN_PANEL
    table->peak_codes = pn_peak_codes_avx512;
    table->peak_f32 = pn_peak_f32_avx512;
}
