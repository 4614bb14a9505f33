/* SPDX-License-Identifier: Apache-2.0 */
#include "base/new_folder.h"

#include "base/mem.h"
#include "base/slice.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *a, const char *between, const char *b) {
    pn_buf buf;
    size_t len;
    pn_buf_init(&buf, PN_BUF_NO_BOUND);
    pn_buf_append_fmt(&buf, "%s%s%s", a, between, b);
    char *joined = pn_buf_take(&buf, &len);
    pn_buf_done(&buf);
    return joined;
}

/* "/a/b///" is "/a/b", so that what is appended to it stands beside it. */
static void drop_slashes(char *path) {
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
}

static bool is_here(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

pn_status pn_new_folder_check(const char *path, pn_error *err) {
    struct stat st;
    if (lstat(path, &st) != 0) return PN_OK; /* what else is wrong shows when the folder is made */
    if (!S_ISDIR(st.st_mode))
        return pn_fail(err, PN_ERR_IO, "%s is there already and no folder: remove it, or give another name",
                       path);
    DIR *dir = opendir(path);
    bool any = !dir;
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        any = any || !is_here(entry->d_name);
    if (dir) closedir(dir);
    if (any)
        return pn_fail(
            err, PN_ERR_IO,
            "%s is a folder with files in it, which are never replaced: remove it, or give another "
            "name",
            path);
    return PN_OK;
}

static pn_status make_partial(pn_new_folder *f, pn_error *err) {
    for (int i = 0; i < 100; i++) {
        char suffix[48];
        snprintf(suffix, sizeof suffix, "%ld-%d.partial", (long)getpid(), i);
        char *partial = join(f->path, ".", suffix);
        if (!partial) return pn_fail_memory(err, "folder name", sizeof suffix);
        if (mkdir(partial, 0777) == 0) {
            f->partial = partial;
            return PN_OK;
        }
        int error = errno;
        pn_free(partial);
        errno = error;
        if (error != EEXIST) break;
    }
    return pn_fail(err, PN_ERR_IO, "cannot make the folder %s: %m", f->path);
}

pn_status pn_new_folder_begin(const char *path, pn_new_folder *folder, pn_error *err) {
    pn_new_folder f = {.path = join(path, "", "")};
    if (!f.path) return pn_fail_memory(err, "folder name", strlen(path));
    drop_slashes(f.path);
    pn_status status = pn_new_folder_check(f.path, err);
    if (status == PN_OK) status = make_partial(&f, err);
    if (status != PN_OK) {
        pn_new_folder_done(&f);
        return status;
    }
    *folder = f;
    return PN_OK;
}

pn_status pn_new_folder_file(const pn_new_folder *f, const char *name, pn_new_file *file, pn_error *err) {
    char *path = join(f->partial, "/", name);
    if (!path) return pn_fail_memory(err, "file name", strlen(name));
    pn_status status = pn_new_file_begin(path, file, err);
    pn_free(path);
    return status;
}

/* So that the new name survives a power cut; a folder that cannot be opened is no failure of its files. */
static void sync_folder(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

pn_status pn_new_folder_finish(pn_new_folder *f, pn_error *err) {
    sync_folder(f->partial);
    if (rename(f->partial, f->path) != 0)
        return pn_fail(err, PN_ERR_IO, "cannot give the folder %s its name: %m", f->path);
    pn_free(f->partial);
    f->partial = NULL;
    char *copy = join(f->path, "", "");
    if (copy) sync_folder(dirname(copy));
    pn_free(copy);
    return PN_OK;
}

static void remove_files(const char *path) {
    DIR *dir = opendir(path);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!is_here(entry->d_name)) unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

void pn_new_folder_done(pn_new_folder *f) {
    if (f->partial) {
        remove_files(f->partial);
        rmdir(f->partial);
    }
    pn_free(f->partial);
    pn_free(f->path);
    *f = (pn_new_folder){0};
}
