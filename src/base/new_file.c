/* SPDX-License-Identifier: Apache-2.0 */
#include "base/new_file.h"

#include "base/mem.h"
#include "base/slice.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *a, const char *b) {
    pn_buf buf;
    size_t len;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%s%s", a, b);
    char *joined = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return joined;
}

/* A name of its own beside the final one; a file that a killed process left is passed over. */
static pn_status open_partial(pn_new_file *f, pn_error *err) {
    for (int i = 0; i < 100; i++) {
        char suffix[48];
        snprintf(suffix, sizeof suffix, ".%ld-%d.partial", (long)getpid(), i);
        pn_free(f->partial);
        f->partial = join(f->path, suffix);
        if (!f->partial) return pn_fail_memory(err, "file name", sizeof suffix);
        f->fd = open(f->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->fd >= 0) return PN_OK;
        if (errno != EEXIST) break;
    }
    return pn_fail(err, PN_ERR_IO, "cannot write %s: %m", f->partial);
}

static pn_status begin(const char *path, pn_status (*open_it)(pn_new_file *, pn_error *), pn_new_file *file,
                       pn_error *err) {
    pn_new_file f = {.path = join(path, ""), .fd = -1};
    pn_status status = f.path ? open_it(&f, err) : pn_fail_memory(err, "file name", strlen(path));
    if (status != PN_OK) {
        pn_new_file_done(&f);
        return status;
    }
    *file = f;
    return PN_OK;
}

pn_status pn_new_file_begin(const char *path, pn_new_file *file, pn_error *err) {
    return begin(path, open_partial, file, err);
}

/* Who has the lock owns the name: a file that lost its name to a rename while we waited for it is not it. */
static pn_status open_to_resume(pn_new_file *f, pn_error *err) {
    f->partial = join(f->path, ".partial");
    if (!f->partial) return pn_fail_memory(err, "file name", strlen(f->path));
    int fd = open(f->partial, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return pn_fail(err, PN_ERR_IO, "cannot write %s: %m", f->partial);
    struct stat ours, named;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &ours) != 0 || stat(f->partial, &named) != 0 ||
        ours.st_ino != named.st_ino) {
        close(fd);
        return pn_fail(err, PN_ERR_IO, "%s is being written by another process", f->partial);
    }
    f->fd = fd;
    return PN_OK;
}

pn_status pn_new_file_resume(const char *path, pn_new_file *file, pn_error *err) {
    return begin(path, open_to_resume, file, err);
}

bool pn_new_file_read_at(const pn_new_file *f, uint64_t at, void *bytes, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t some = pread(f->fd, (char *)bytes + done, n - done, (off_t)(at + done));
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) return false;
        done += (size_t)some;
    }
    return true;
}

void pn_new_file_write(pn_new_file *f, const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0 && f->error == 0) {
        ssize_t done = write(f->fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            f->error = errno;
            return;
        }
        at += done;
        n -= (size_t)done;
    }
}

void pn_new_file_write_at(pn_new_file *f, uint64_t at, const void *bytes, size_t n) {
    for (size_t done = 0; done < n && f->error == 0;) {
        ssize_t written = pwrite(f->fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR)
            f->error = errno;
    }
}

void pn_new_file_extend(pn_new_file *f, uint64_t bytes) {
    if (f->error == 0 && ftruncate(f->fd, (off_t)bytes) != 0) f->error = errno;
}

/* So that the new name survives a power cut; a folder that cannot be opened is no failure of the file. */
static void sync_folder(const pn_new_file *f) {
    char *copy = join(f->path, "");
    if (!copy) return;
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    pn_free(copy);
}

pn_status pn_new_file_finish(pn_new_file *f, pn_error *err) {
    if (f->error == 0 && fsync(f->fd) != 0) f->error = errno;
    if (f->error == 0 && rename(f->partial, f->path) != 0) f->error = errno;
    errno = f->error;
    if (f->error != 0) return pn_fail(err, PN_ERR_IO, "cannot write %s: %m", f->path);
    close(f->fd);
    f->fd = -1;
    sync_folder(f);
    return PN_OK;
}

void pn_new_file_done(pn_new_file *f) {
    if (f->fd >= 0) {
        close(f->fd);
        unlink(f->partial);
    }
    pn_free(f->partial);
    pn_free(f->path);
    *f = (pn_new_file){.fd = -1};
}
