/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that gets its name only when all its files are whole: until then it is PATH.PID-N.partial beside
   it (base/new_file.h does the same for one file).

   Usage: begin, files by pn_new_folder_file, each finished and done, then finish; done in any case. */
#ifndef PN_BASE_NEW_FOLDER_H
#define PN_BASE_NEW_FOLDER_H

#include "base/new_file.h"

typedef struct pn_new_folder {
    char *path, *partial; /* the final name; the one until then, NULL once the folder has its name */
} pn_new_folder;

/* Whether the path is free, or an empty folder: all that may be there. PN_ERR_IO says what is. */
pn_status pn_new_folder_check(const char *path, pn_error *err);
/* The same, and PN_ERR_IO names a path where no folder can be made. Fills *folder on success only. */
pn_status pn_new_folder_begin(const char *path, pn_new_folder *folder, pn_error *err);
/* Begins a file of the folder. */
pn_status pn_new_folder_file(const pn_new_folder *folder, const char *name, pn_new_file *file, pn_error *err);
/* Flushes to the disk and gives the folder its name. */
pn_status pn_new_folder_finish(pn_new_folder *folder, pn_error *err);
/* Removes a folder that is not finished, with the files in it; one that is all zero is fine. */
void pn_new_folder_done(pn_new_folder *folder);

#endif
