/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include "base/utf8.h"

#include <string.h>

void pn_stream_init(pn_stream *stream, const pn_generate_options *o) {
    *stream = (pn_stream){.stop = o->stop, .n_stop = o->n_stop, .on_text = o->on_text, .user = o->user};
    pn_buf_init(&stream->pending, PN_BUF_NO_BOUND);
    pn_buf_init(&stream->text, PN_BUF_NO_BOUND);
}

void pn_stream_done(pn_stream *stream) {
    pn_buf_done(&stream->pending);
    pn_buf_done(&stream->text);
}

/* Shows the first n pending bytes. */
static pn_status show(pn_stream *stream, size_t n, pn_error *err) {
    if (n == 0) return PN_OK;
    size_t before = stream->text.len;
    if (pn_utf8_append_clean(&stream->text, stream->pending.data, n) != PN_OK)
        return pn_fail_memory(err, "answer text", before + n);
    stream->pending.len -= n;
    memmove(stream->pending.data, stream->pending.data + n, stream->pending.len);
    if (stream->on_text && !stream->refused)
        stream->refused =
            !stream->on_text(stream->user, stream->text.data + before, stream->text.len - before);
    return PN_OK;
}

/* Where the first stop string begins in the pending bytes, and which it is; their length when none does. */
static size_t find_stop(const pn_stream *stream, const char **which) {
    size_t first = stream->pending.len;
    for (size_t i = 0; i < stream->n_stop; i++) {
        const char *at =
            memmem(stream->pending.data, stream->pending.len, stream->stop[i], strlen(stream->stop[i]));
        if (!at || (size_t)(at - stream->pending.data) >= first) continue;
        first = (size_t)(at - stream->pending.data);
        *which = stream->stop[i];
    }
    return first;
}

/* How many bytes at the end may still become a stop string. */
static size_t held_for_stop(const pn_stream *stream) {
    size_t held = 0;
    for (size_t i = 0; i < stream->n_stop; i++) {
        size_t n = strlen(stream->stop[i]) - 1;
        if (n > stream->pending.len) n = stream->pending.len;
        for (; n > held; n--)
            if (memcmp(stream->pending.data + stream->pending.len - n, stream->stop[i], n) == 0) held = n;
    }
    return held;
}

pn_status pn_stream_advance(pn_stream *stream, pn_error *err) {
    if (stream->pending.status != PN_OK) return pn_fail_memory(err, "answer text", stream->pending.len);
    size_t stop = find_stop(stream, &stream->stopped_by);
    if (stop < stream->pending.len) {
        PN_TRY(show(stream, stop, err));
        pn_buf_clear(&stream->pending);
        return PN_OK;
    }
    size_t ready = stream->pending.len - held_for_stop(stream);
    return show(stream, ready ? pn_utf8_complete(stream->pending.data, ready) : 0, err);
}

pn_status pn_stream_finish(pn_stream *stream, pn_error *err) {
    return show(stream, stream->pending.len, err);
}
