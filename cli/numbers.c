/* SPDX-License-Identifier: Apache-2.0 */
#include "numbers.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_MAX 64

/* strtol and its kin skip blanks and stop at garbage; a copy that holds only the characters of numbers shuts
   both out and ends where a list's element ends. */
static bool copy_number(const char *text, size_t len, const char *alphabet, char out[TEXT_MAX]) {
    if (len == 0 || len >= TEXT_MAX) return false;
    memcpy(out, text, len);
    out[len] = '\0';
    return strspn(out, alphabet) == len;
}

bool number_int(const char *text, size_t len, int min, int max, int *out) {
    char copy[TEXT_MAX], *end;
    if (!copy_number(text, len, "+-0123456789", copy)) return false;
    errno = 0;
    long value = strtol(copy, &end, 10);
    if (errno != 0 || *end != '\0' || value < min || value > max) return false;
    *out = (int)value;
    return true;
}

bool number_u64(const char *text, uint64_t *out) {
    char copy[TEXT_MAX], *end;
    if (!copy_number(text, strlen(text), "0123456789", copy)) return false;
    errno = 0;
    unsigned long long value = strtoull(copy, &end, 10);
    if (errno != 0 || *end != '\0') return false;
    *out = value;
    return true;
}

bool number_float(const char *text, size_t len, double min, double max, float *out) {
    char copy[TEXT_MAX], *end;
    if (!copy_number(text, len, "+-.0123456789eEinf", copy)) return false;
    double value = strtod(copy, &end);
    if (*end != '\0' || !(value >= min && value <= max)) return false;
    *out = (float)value;
    return true;
}

bool number_bytes(const char *text, uint64_t *out) {
    static const char units[] = "KMGT";
    char copy[TEXT_MAX], *end;
    size_t len = strlen(text);
    const char *unit = len > 0 ? strchr(units, toupper((unsigned char)text[len - 1])) : NULL;
    double scale = unit ? ldexp(1, 10 * (int)(unit - units + 1)) : 1;
    if (!copy_number(text, unit ? len - 1 : len, ".0123456789", copy)) return false;
    double value = strtod(copy, &end) * scale;
    if (*end != '\0' || !(value < 0x1p63)) return false;
    *out = (uint64_t)value;
    return true;
}

/* Exactly `width` digits at *text, which moves past them. */
static bool take_digits(const char **text, int width, int min, int max, int *out) {
    int value = 0;
    for (int i = 0; i < width; i++, (*text)++) {
        if (**text < '0' || **text > '9') return false;
        value = value * 10 + (**text - '0');
    }
    *out = value;
    return value >= min && value <= max;
}

static bool take_char(const char **text, char c) {
    if (**text != c) return false;
    (*text)++;
    return true;
}

static bool parse_date(const char *text, int64_t *out) {
    struct tm t = {0};
    if (!take_digits(&text, 4, 1970, 9999, &t.tm_year) || !take_char(&text, '-') ||
        !take_digits(&text, 2, 1, 12, &t.tm_mon) || !take_char(&text, '-') ||
        !take_digits(&text, 2, 1, 31, &t.tm_mday))
        return false;
    if (*text != '\0' && (!take_char(&text, 'T') || !take_digits(&text, 2, 0, 23, &t.tm_hour) ||
                          !take_char(&text, ':') || !take_digits(&text, 2, 0, 59, &t.tm_min) ||
                          !take_char(&text, ':') || !take_digits(&text, 2, 0, 59, &t.tm_sec)))
        return false;
    if (*text != '\0') return false;
    int day = t.tm_mday;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    int64_t value = timegm(&t);
    if (t.tm_mday != day) /* timegm carried 31 February over into March */
        return false;
    *out = value;
    return true;
}

bool number_time(const char *text, int64_t *out) {
    static const uint64_t end_of_year_9999 = 253402300799u;
    uint64_t seconds;
    if (parse_date(text, out)) return true;
    if (!number_u64(text, &seconds) || seconds > end_of_year_9999) return false;
    *out = (int64_t)seconds;
    return true;
}
