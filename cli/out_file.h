/* SPDX-License-Identifier: Apache-2.0 */
/* A file that a command writes beside its main result. It gets its name only when it is whole: until then it
   is PATH.PID.partial beside it. */
#ifndef CLI_OUT_FILE_H
#define CLI_OUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

typedef struct out_file {
    const char *path;
    char *partial;
    FILE *file; /* to write to; NULL when none is open */
} out_file;

/* Opens it before the work whose result it will hold, so that a name which cannot be written is told at once.
   Without force a file that is there already is refused. Prints the error and returns the exit code. */
int out_file_begin(out_file *f, const char *path, bool force);
/* Gives it its name, or says why not. */
int out_file_finish(out_file *f);
/* Removes one that was not finished; fine for one that is all zero or finished. */
void out_file_drop(out_file *f);

#endif
