/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/isa.h"
#include "kernels/x86_avx512/decode.h"

static void set_decode(pn_kernels *table, uint32_t id, pn_kernels_decode_fn decode) {
    for (size_t i = 0; i < PN_KERNEL_MAX_TYPES && pn_qtype_at(i); i++) {
        if (pn_qtype_at(i)->id == id) table->decode[i] = decode;
    }
}

void pn_kernels_fill_avx512(pn_kernels *table) {
    table->matmul_f32 = pn_matmul_f32_avx512;
    table->attn_scores_f16 = pn_attn_scores_f16_avx512;
    table->attn_scores_f32 = pn_attn_scores_f32_avx512;
    table->attn_mix_f16 = pn_attn_mix_f16_avx512;
    table->attn_mix_f32 = pn_attn_mix_f32_avx512;
    table->exp_sum_f32 = pn_exp_sum_f32_avx512;
    table->rms_norm_f32 = pn_rms_norm_f32_avx512;
    table->rope_pairs_f32 = pn_rope_pairs_f32_avx512;
    table->rope_halves_f32 = pn_rope_halves_f32_avx512;
    table->silu_mul_f32 = pn_silu_mul_f32_avx512;
    table->gelu_mul_f32 = pn_gelu_mul_f32_avx512;
    table->read_streams = pn_read_streams_avx512;
#define PN_AVX512_SET(id, decode) set_decode(table, id, decode);
    PN_AVX512_DECODERS(PN_AVX512_SET)
#undef PN_AVX512_SET
}
