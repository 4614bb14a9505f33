/* SPDX-License-Identifier: Apache-2.0 */
#include "keys.h"

#include <string.h>

/* Compares all of both, whatever is found on the way. */
static unsigned differ(const char *key, const char *given) {
    const size_t n_key = strlen(key), n_given = strlen(given);
    volatile unsigned difference = n_key != n_given;
    for (size_t i = 0; i < n_key; i++)
        difference |= (unsigned char)key[i] ^ (unsigned char)(n_given > 0 ? given[i % n_given] : 0);
    return difference;
}

bool keys_have(const char *const *keys, size_t n, const char *given) {
    unsigned n_equal = 0;
    for (size_t i = 0; i < n; i++)
        n_equal += differ(keys[i], given) == 0;
    return n_equal > 0;
}
