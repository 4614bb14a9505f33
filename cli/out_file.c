/* SPDX-License-Identifier: Apache-2.0 */
#include "out_file.h"

#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int out_file_begin(out_file *f, const char *path, bool force) {
    struct stat st;
    const bool is_there = stat(path, &st) == 0;
    *f = (out_file){.path = path};
    if (is_there && (!force || !S_ISREG(st.st_mode)))
        return cli_error(CLI_USAGE, "%s is there already: give another name%s", path,
                         S_ISREG(st.st_mode) ? ", or --force to replace it" : "");
    f->partial = cli_format("%s.%ld.partial", path, (long)getpid());
    f->file = fopen(f->partial, "w");
    if (f->file) return CLI_OK;
    int code = cli_error(CLI_FILE, "cannot write %s: %s", path, strerror(errno));
    out_file_drop(f);
    return code;
}

int out_file_finish(out_file *f) {
    bool written = fflush(f->file) == 0 && !ferror(f->file) && fsync(fileno(f->file)) == 0;
    written = fclose(f->file) == 0 && written;
    f->file = NULL;
    int code = CLI_OK;
    if (!written || rename(f->partial, f->path) != 0) {
        code = cli_error(CLI_FILE, "cannot write %s: %s", f->path, strerror(errno));
        unlink(f->partial);
    }
    out_file_drop(f);
    return code;
}

void out_file_drop(out_file *f) {
    if (f->file) {
        fclose(f->file);
        unlink(f->partial);
    }
    free(f->partial);
    *f = (out_file){0};
}
