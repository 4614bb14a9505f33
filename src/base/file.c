/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Mapped files are read as they lie, and may be larger than 4 GiB. */
_Static_assert(sizeof(size_t) == 8, "postern needs a 64-bit machine");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "postern needs a little-endian machine");

static pn_status fail_errno(pn_error *err, const char *doing, const char *path) {
    pn_status code = errno == ENOMEM ? PN_ERR_MEMORY : PN_ERR_IO;
    return pn_fail(err, code, "cannot %s %s: %m", doing, path); /* %m is the text of errno */
}

static pn_status map_descriptor(int fd, const char *path, pn_map *out, pn_error *err) {
    struct stat st;
    if (fstat(fd, &st) != 0) return fail_errno(err, "read", path);
    if (S_ISDIR(st.st_mode)) return pn_fail(err, PN_ERR_IO, "%s is a folder, a model file is expected", path);
    if (!S_ISREG(st.st_mode)) return pn_fail(err, PN_ERR_IO, "%s is not a regular file", path);
    if (st.st_size == 0) return pn_fail_at(err, PN_ERR_FORMAT, 0, "%s is empty", path);
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) return fail_errno(err, "map", path);
    *out = (pn_map){.data = data, .len = (uint64_t)st.st_size};
    return PN_OK;
}

pn_status pn_map_open(const char *path, pn_map *out, pn_error *err) {
    /* O_NONBLOCK: opening a pipe by mistake must not wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return fail_errno(err, "open", path);
    pn_status status = map_descriptor(fd, path, out, err);
    close(fd);
    return status;
}

void pn_map_forget(const void *data, size_t len) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data, end = begin + len;
    begin = (begin + page - 1) / page * page; /* pages that others share with us stay */
    end = end / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void pn_map_close(pn_map *map) {
    if (map->data) munmap((void *)(uintptr_t)map->data, (size_t)map->len);
    *map = (pn_map){0};
}
