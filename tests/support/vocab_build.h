/* SPDX-License-Identifier: Apache-2.0 */
/* Small vocabularies for tests of the tokenizer, and checks of what it makes of a text. What fails ends the
   test. */
#ifndef PN_TESTS_SUPPORT_VOCAB_BUILD_H
#define PN_TESTS_SUPPORT_VOCAB_BUILD_H

#include "text/tokenizer.h"

#define VB_MARK "\xE2\x96\x81" /* U+2581 */

enum { VB_MAX_TOKENS = 600, VB_MAX_MERGES = 64 };

/* A vocabulary under construction. vb_create sets the spec's counts, all else of it may be changed before. */
typedef struct vb_fixture {
    pn_str tokens[VB_MAX_TOKENS], merges[VB_MAX_MERGES];
    float scores[VB_MAX_TOKENS];
    int32_t kinds[VB_MAX_TOKENS];
    char storage[4096]; /* of spellings that are made here */
    size_t n, n_merges, used;
    pn_tokenizer_spec spec;
} vb_fixture;

/* "gpt2" with a token for each byte, whose id it is, and those below. Each call makes the fixture anew. */
vb_fixture *vb_byte_level(const char *pre);
enum {
    HE = 256,
    LL,
    HELL,
    HELLO,
    SP_HELLO,
    SP_SP,
    D12,
    AA,
    B8E_BANG,
    B85_BANG,
    END_CONTROL,
    THINK,
    THINKING
};

/* "llama" with byte tokens from BYTE_0 on and those below: bc is better than ab, ab than abc, abc than the
   marker with a. S_TWO are two spaces and S_TAG is "<b>", both user-defined. */
vb_fixture *vb_pieces(void);
enum {
    UNK,
    S_BOS,
    S_EOS,
    BYTE_0,
    S_MARK = BYTE_0 + 256,
    S_A,
    S_B,
    S_C,
    S_AB,
    S_BC,
    S_ABC,
    S_MARK_A,
    S_TWO,
    S_TAG
};

/* Adds a token, or a merge with its token; gives the id. The spelling is borrowed. */
int32_t vb_add_bytes(vb_fixture *f, pn_str spelling, int32_t kind, float score);
int32_t vb_add(vb_fixture *f, const char *spelling, int32_t kind, float score);
int32_t vb_add_merge(vb_fixture *f, const char *merge);

/* Freed with pn_tokenizer_free. */
pn_tokenizer *vb_create(vb_fixture *f);

/* ids are freed with pn_free, or by check_ids. */
pn_tokens vb_encode(const pn_tokenizer *tok, pn_str text, const pn_encode_options *options);
void vb_check_ids(pn_tokens got, const int32_t *ids, size_t n);
void vb_check_text(const pn_tokenizer *tok, const int32_t *ids, size_t n, bool with_control, pn_str text);
void vb_check_round_trip(const pn_tokenizer *tok, pn_str text);

/* The NUL-terminated text must become these ids. */
#define VB_EXPECT_OPTIONS(tok, text, options, ...)                                                           \
    do {                                                                                                     \
        static const int32_t ids_[] = {__VA_ARGS__};                                                         \
        vb_check_ids(vb_encode(tok, pn_str_from(text), options), ids_, sizeof ids_ / sizeof ids_[0]);        \
    } while (0)
#define VB_EXPECT(tok, text, ...) VB_EXPECT_OPTIONS(tok, text, NULL, __VA_ARGS__)

#endif
