/* SPDX-License-Identifier: Apache-2.0 */
#include "base/notes.h"

#include "base/slice.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 8192
#define PATH_CAP 1024

/* Without the file's own name. False when there is no such place, or its name is too long. A set-user-id
   program does not follow the environment. */
static bool folder_of_notes(char *path, bool make) {
    const char *cache = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int n = -1;
    if (cache && cache[0] == '/')
        n = snprintf(path, PATH_CAP, "%s", cache);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_CAP, "%s/.cache", home);
    if (n < 0 || n > PATH_CAP - 128) return false;
    if (make) mkdir(path, 0700);
    memcpy(path + n, "/postern", sizeof "/postern");
    if (make) mkdir(path, 0700);
    return true;
}

/* The file's text, NUL-terminated; "" when it cannot be read. */
static void read_notes(const char *path, char text[FILE_MAX + 1]) {
    size_t len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whatever lies there, do not wait for it */
    for (ssize_t n; fd >= 0 && (n = read(fd, text + len, FILE_MAX - len)) > 0;)
        len += (size_t)n;
    if (fd >= 0) close(fd);
    text[len] = '\0';
}

/* The value of a line "KEY<tab>VALUE" when it has this key. */
static const char *value_in(const char *line, const char *key) {
    size_t len = strlen(key);
    return strncmp(line, key, len) == 0 && line[len] == '\t' ? line + len + 1 : NULL;
}

bool pn_notes_get(const char *name, const char *key, char *value, size_t size) {
    char path[PATH_CAP], text[FILE_MAX + 1];
    if (!folder_of_notes(path, false)) return false;
    size_t len = strlen(path);
    snprintf(path + len, sizeof path - len, "/%s", name);
    read_notes(path, text);
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *found = value_in(line, key);
        if (!found || found > end) continue;
        snprintf(value, size, "%.*s", (int)(end - found), found);
        return true;
    }
    return false;
}

/* The new note first, then the old ones that are not its key's, as many as there is room for. */
static bool compose(pn_buf *buf, const char *old, const char *key, const char *value) {
    if (pn_buf_append_fmt(buf, "%s\t%s\n", key, value) != PN_OK) return false;
    for (const char *line = old, *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t len = (size_t)(end - line) + 1;
        if (value_in(line, key)) continue;
        if (buf->len + len > FILE_MAX) break;
        if (pn_buf_append(buf, line, len) != PN_OK) return false;
    }
    return true;
}

void pn_notes_put(const char *name, const char *key, const char *value) {
    char path[PATH_CAP], fresh[PATH_CAP], text[FILE_MAX + 1];
    if (!folder_of_notes(path, true)) return;
    size_t len = strlen(path);
    snprintf(path + len, sizeof path - len, "/%s", name);
    snprintf(fresh, sizeof fresh, "%.*s/.notes-XXXXXX", (int)len, path);
    read_notes(path, text);
    pn_buf buf;
    pn_buf_init(&buf, FILE_MAX);
    int fd = compose(&buf, text, key, value) ? mkostemp(fresh, O_CLOEXEC) : -1;
    if (fd >= 0) {
        bool written = write(fd, buf.data, buf.len) == (ssize_t)buf.len;
        if (close(fd) != 0 || !written || rename(fresh, path) != 0) unlink(fresh);
    }
    pn_buf_done(&buf);
}
