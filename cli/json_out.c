/* SPDX-License-Identifier: Apache-2.0 */
#include "json_out.h"

#include "common.h"
#include "term.h"

#include <stdlib.h>

json_t *json_need(json_t *value) {
    if (value == NULL) exit(cli_error(CLI_LIMIT, "out of memory"));
    return value;
}

json_t *json_from_text(const char *text, size_t len) {
    cli_text repaired = {0};
    cli_text_append(&repaired, "", 0);
    for (size_t i = 0, n; i < len; i += n) {
        int32_t code_point;
        n = term_decode(text + i, len - i, &code_point);
        if (code_point < 0)
            cli_text_append(&repaired, "\xEF\xBF\xBD", 3);
        else
            cli_text_append(&repaired, text + i, n);
    }
    json_t *value = json_need(json_stringn(repaired.data, repaired.len));
    cli_text_free(&repaired);
    return value;
}

void json_print(const json_t *object) {
    json_dumpf(object, stdout, JSON_REAL_PRECISION(6));
    putchar('\n');
}
