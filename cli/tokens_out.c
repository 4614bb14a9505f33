/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens_out.h"

#include "json_out.h"
#include "term.h"

pn_status tokens_print(const pn_model *model, const pn_tokens *tokens, pn_error *err) {
    for (size_t i = 0; i < tokens->n; i++) {
        pn_text piece = {0};
        pn_status status = pn_detokenize(model, &tokens->ids[i], 1, true, &piece, err);
        if (status != PN_OK) return status;
        printf("%d\t", tokens->ids[i]);
        term_print_escaped(stdout, piece.data, piece.len);
        putchar('\n');
        pn_text_free(&piece);
    }
    return PN_OK;
}

pn_status tokens_to_json(const pn_model *model, const pn_tokens *tokens, json_t *object, pn_error *err) {
    json_t *ids = json_need(json_array()), *pieces = json_need(json_array());
    json_object_set_new(object, "n", json_integer((json_int_t)tokens->n));
    json_object_set_new(object, "ids", ids);
    json_object_set_new(object, "pieces", pieces);
    for (size_t i = 0; i < tokens->n; i++) {
        pn_text piece = {0};
        pn_status status = pn_detokenize(model, &tokens->ids[i], 1, true, &piece, err);
        if (status != PN_OK) return status;
        json_array_append_new(ids, json_integer(tokens->ids[i]));
        json_array_append_new(pieces, json_from_text(piece.data, piece.len));
        pn_text_free(&piece);
    }
    return PN_OK;
}
