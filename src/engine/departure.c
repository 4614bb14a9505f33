/* SPDX-License-Identifier: Apache-2.0 */
/* Two texts that were to be one: where they part, which message that is in, and what is to blame. Decided by
   who wrote the differing byte and by what both texts go on with; nothing is rendered again. */
#include "engine/engine.h"

#include <jansson.h>
#include <stdio.h>

static size_t common_length(pn_str a, pn_str b) {
    size_t i = 0;
    while (i < a.len && i < b.len && a.data[i] == b.data[i])
        i++;
    return i;
}

static bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static pn_str after_space(pn_str s) {
    while (s.len > 0 && is_space(s.data[0]))
        s = (pn_str){s.data + 1, s.len - 1};
    return s;
}

static pn_str tail(pn_str s, size_t at) {
    return at < s.len ? (pn_str){s.data + at, s.len - at} : (pn_str){s.data + s.len, 0};
}

static const char *find(pn_str s, const char *what) {
    return s.len > 0 ? memmem(s.data, s.len, what, strlen(what)) : NULL;
}

/* ---- excerpts ---- */

static bool is_continuation(char c) {
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* The beginning of what stands at `at`: of its word, if that is not far, or else of its character. */
static size_t begin_of(pn_str s, size_t at) {
    enum { FAR = 16 };
    if (at > s.len) at = s.len;
    size_t i = at;
    while (i > 0 && at - i < FAR && !is_space(s.data[i - 1]))
        i--;
    if (at - i == FAR) i = at;
    while (i > 0 && i < s.len && is_continuation(s.data[i]))
        i--;
    return i;
}

static void excerpt(pn_str s, size_t at, char *out, size_t size) {
    size_t n = s.len - at < size - 1 ? s.len - at : size - 1;
    while (n > 0 && n < s.len - at && is_continuation(s.data[at + n]))
        n--;
    memcpy(out, s.data + at, n);
    out[n] = '\0';
}

/* ---- dates and times ---- */

/* What a date or time is made of, as a class of characters; 0: something else. */
static char time_class(char c) {
    if (is_digit(c)) return 'd';
    return c == ':' || c == '-' || c == '/' || c == '.' || c == 'T' || c == 'Z' || c == '+' ? c : 0;
}

static pn_range time_at(pn_str s, size_t at) {
    pn_range r = {at, at};
    while (r.begin > 0 && time_class(s.data[r.begin - 1]))
        r.begin--;
    while (r.end < s.len && time_class(s.data[r.end]))
        r.end++;
    return r;
}

/* Both have numbers around `at` that are put together in the same way: 2026-01-02, 9:05, 10:05. */
static bool numbers_of_time(pn_str a, pn_str b, size_t at) {
    const pn_range x = time_at(a, at), y = time_at(b, at);
    size_t i = x.begin, j = y.begin, n_digits = 0, n_marks = 0;
    while (i < x.end && j < y.end) {
        const char class = time_class(a.data[i]);
        if (class != time_class(b.data[j])) return false;
        if (class != 'd') {
            n_marks += class == ':' || class == '-' || class == '/';
            i++;
            j++;
            continue;
        }
        for (; i < x.end && is_digit(a.data[i]); i++)
            n_digits++;
        while (j < y.end && is_digit(b.data[j]))
            j++;
    }
    return i == x.end && j == y.end && n_digits >= 3 && n_marks > 0;
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The word around `at` is the name of a month or of a day, or its first three letters. */
static bool name_of_time(pn_str s, size_t at) {
    static const char names[][10] = {"January",  "February", "March",    "April",     "May",
                                     "June",     "July",     "August",   "September", "October",
                                     "November", "December", "Monday",   "Tuesday",   "Wednesday",
                                     "Thursday", "Friday",   "Saturday", "Sunday"};
    size_t begin = at, end = at;
    while (begin > 0 && is_letter(s.data[begin - 1]))
        begin--;
    while (end < s.len && is_letter(s.data[end]))
        end++;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((end - begin == 3 || end - begin == strlen(names[i])) &&
            memcmp(s.data + begin, names[i], end - begin) == 0)
            return true;
    return false;
}

static bool is_of_clock(pn_str old, const pn_rendering *now, size_t at) {
    const pn_str text = {now->text.data, now->text.len};
    const pn_segment *here = pn_rendering_segment(now, at);
    if (here &&
        (here->clock || (here->range.begin == at && at > 0 && pn_rendering_segment(now, at - 1)->clock)))
        return true;
    return numbers_of_time(old, text, at) || (name_of_time(old, at) && name_of_time(text, at));
}

/* ---- thoughts ---- */

/* What models put around what they think before they answer. */
static const struct {
    const char *open, *close;
} thoughts[] = {{"<think>", "</think>"},
                {"<thinking>", "</thinking>"},
                {"[THINK]", "[/THINK]"},
                {"<|START_THINKING|>", "<|END_THINKING|>"},
                {"<|channel|>analysis", "<|end|>"}};
#define N_THOUGHTS (sizeof thoughts / sizeof thoughts[0])

/* The texts go on alike, for as long as it takes to say so. */
static bool go_on_alike(pn_str a, pn_str b) {
    enum { ENOUGH = 12 };
    const size_t n = common_length(a, b);
    return n > 0 && (n >= ENOUGH || n == a.len || n == b.len);
}

/* Without a thought that is empty, as templates put one into answers that had one. */
static pn_str after_empty_thought(pn_str s, size_t kind) {
    const char *open = thoughts[kind].open, *close = thoughts[kind].close;
    pn_str rest = after_space(s);
    if (rest.len < strlen(open) || memcmp(rest.data, open, strlen(open)) != 0) return after_space(s);
    rest = after_space(tail(rest, strlen(open)));
    if (rest.len < strlen(close) || memcmp(rest.data, close, strlen(close)) != 0) return after_space(s);
    return after_space(tail(rest, strlen(close)));
}

/* A thought of the old text stands where they part, or begins just before, and the new one goes on with what
   comes after it. */
static bool thought_is_gone(pn_str old, pn_str new, size_t at) {
    for (size_t i = 0; i < N_THOUGHTS; i++) {
        const size_t n_open = strlen(thoughts[i].open), n_close = strlen(thoughts[i].close);
        const char *close = find(tail(old, at), thoughts[i].close);
        if (!close) continue;
        size_t open = (size_t)(close - old.data);
        while (open > 0 &&
               (open + n_open > old.len || memcmp(old.data + open, thoughts[i].open, n_open) != 0))
            open--;
        if (memcmp(old.data + open, thoughts[i].open, n_open) != 0) continue;
        /* Both may begin the mark, or what only looks like it. */
        if (open > at + 2) continue;
        const pn_str rest = after_space(tail(old, (size_t)(close - old.data) + n_close));
        if (go_on_alike(rest, after_empty_thought(tail(new, open < at ? open : at), i))) return true;
    }
    return false;
}

/* ---- who it was ---- */

static size_t first_edited(const json_t *messages, const json_t *before) {
    size_t i = 0;
    while (i < json_array_size(before) && json_equal(json_array_get(messages, i), json_array_get(before, i)))
        i++;
    return i;
}

/* Whether the text of a message was said before, after something that is gone now. */
static bool stood_later(pn_str old, const pn_rendering *now, const pn_segment *here) {
    const pn_str said =
        after_space((pn_str){now->text.data + here->range.begin, here->range.end - here->range.begin});
    const pn_str rest = tail(old, here->range.begin);
    return said.len > 0 && rest.len > 0 && memmem(rest.data, rest.len, said.data, said.len) != NULL;
}

/* Only when none of the causes that can be seen in the texts is to blame. */
static pn_cache_cause edited_or_template(pn_str old, const pn_rendering *now, size_t at,
                                         const json_t *messages, const json_t *before,
                                         const pn_cache_explanation *found) {
    const pn_segment *here = pn_rendering_segment(now, at);
    const pn_str text = {now->text.data, now->text.len};
    const bool own = here && here->message >= 0;
    if (before) {
        const size_t edited = first_edited(messages, before), n_before = json_array_size(before);
        if (edited < n_before)
            return found->message < 0 || (size_t)found->message < edited ? PN_CACHE_TEMPLATE
                                                                         : PN_CACHE_EDITED;
        if (!own || (size_t)here->message < n_before) return PN_CACHE_TEMPLATE;
    }
    if (own) return stood_later(old, now, here) ? PN_CACHE_TEMPLATE : PN_CACHE_EDITED;
    /* The message ends here and went on before; white space alone is what templates take away. */
    if (found->message < 0 || go_on_alike(after_space(tail(old, at)), after_space(tail(text, at))))
        return PN_CACHE_TEMPLATE;
    return here && here->range.begin == at ? PN_CACHE_EDITED : PN_CACHE_TEMPLATE;
}

static void locate(const pn_rendering *now, size_t at, const json_t *messages, pn_cache_explanation *out) {
    const pn_segment *here = pn_rendering_segment(now, at);
    out->message = -1;
    out->field = here ? here->field : NULL;
    for (const pn_segment *s = here; s && out->message<0; s = s> now->segments ? s - 1 : NULL)
        out->message = s->message;
    const char *role = json_string_value(json_object_get(
        json_array_get(messages, out->message < 0 ? SIZE_MAX : (size_t)out->message), "role"));
    snprintf(out->role, sizeof out->role, "%s", role ? role : "");
}

bool pn_departure_find(pn_str old, const pn_rendering *now, const json_t *messages, const json_t *before,
                       pn_cache_explanation *out) {
    const pn_str text = {now->text.data, now->text.len};
    const size_t at = common_length(old, text);
    if (at == old.len) return false;
    locate(now, at, messages, out);
    if (thought_is_gone(old, text, at))
        out->cause = PN_CACHE_THINKING_REMOVED;
    else if (is_of_clock(old, now, at))
        out->cause = PN_CACHE_CLOCK;
    else
        out->cause = edited_or_template(old, now, at, messages, before, out);
    const size_t begin = begin_of(text, at);
    excerpt(old, begin, out->old_text, sizeof out->old_text);
    excerpt(text, begin, out->new_text, sizeof out->new_text);
    return true;
}
