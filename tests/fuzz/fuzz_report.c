/* SPDX-License-Identifier: Apache-2.0 */
/* The input is what a file says of its compression. It is refused with a message, or read; and what was read,
   written again, is read again. The same when some allocation fails, which the length picks. */
#include "base/mem.h"
#include "compress/report.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds) {
    if (!holds) abort();
}

static void read_again(const pn_compress_result *r) {
    size_t len;
    pn_compress_result again;
    char *text = pn_report_json(r, &len);
    require(text != NULL && pn_report_parse(text, len, &again, NULL) == PN_OK);
    require(again.n_tensors == r->n_tensors && again.bytes_after == r->bytes_after);
    pn_compress_result_free(&again);
    pn_free(text);
}

static void parse(const char *text, size_t len, bool again) {
    pn_compress_result r;
    pn_error err = {0};
    pn_status status = pn_report_parse(text, len, &r, &err);
    if (status == PN_OK) {
        if (again) read_again(&r);
        pn_compress_result_free(&r);
    } else {
        require(err.code == status && err.message[0] != '\0');
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
    parse((const char *)data, size, true);
    pn_mem_fail_at(1 + size % 8);
    parse((const char *)data, size, false);
    pn_mem_fail_at(0);
    require(pn_mem_bytes(PN_MEM_OTHER) == held);
    return 0;
}
