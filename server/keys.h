/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether `given` is one of the keys [n], in a time that tells nothing of them but their lengths. */
bool keys_have(const char *const *keys, size_t n, const char *given);

#endif
