/* SPDX-License-Identifier: Apache-2.0 */
/* A file that gets its name only when it is whole: until then it is PATH.PID-N.partial beside it, so that
   nobody finds half of it and a failure leaves what stood there before. Or it is PATH.partial, which a killed
   process leaves behind for the next to go on with, and which belongs to one process at a time.

   Usage: begin, any number of writes, then finish; done in any case. Failures of writing stick: bytes may be
   written blindly and finish asked. */
#ifndef PN_BASE_NEW_FILE_H
#define PN_BASE_NEW_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pn_new_file {
    char *path, *partial; /* the final name, and the one until then */
    int fd;               /* -1 once the file has its name */
    int error;            /* errno of the first failure; 0: none */
} pn_new_file;

/* PN_ERR_IO names the path. Fills *file on success only. */
pn_status pn_new_file_begin(const char *path, pn_new_file *file, pn_error *err);
/* The same with the name PATH.partial: what is there already stays, to be read and written over. PN_ERR_IO
   also when another process has it. */
pn_status pn_new_file_resume(const char *path, pn_new_file *file, pn_error *err);
void pn_new_file_write(pn_new_file *file, const void *bytes, size_t n);
/* At a place of its own: where pn_new_file_write goes on stays as it is. */
void pn_new_file_write_at(pn_new_file *file, uint64_t at, const void *bytes, size_t n);
/* What is there, of a file begun with pn_new_file_resume; false when it is not as long. */
bool pn_new_file_read_at(const pn_new_file *file, uint64_t at, void *bytes, size_t n);
/* As long as `bytes`: zeros where nothing was written. */
void pn_new_file_extend(pn_new_file *file, uint64_t bytes);
/* Flushes to the disk and gives the file its name, replacing what had it. */
pn_status pn_new_file_finish(pn_new_file *file, pn_error *err);
/* Removes a file that is not finished; one that is all zero but for fd, which is -1, is fine. */
void pn_new_file_done(pn_new_file *file);

#endif
