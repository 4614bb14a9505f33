/* SPDX-License-Identifier: Apache-2.0 */
/* Small facts that one process finds out and the next need not: lines of key and value in a file of the
   user's cache folder, $XDG_CACHE_HOME/postern or ~/.cache/postern. Nothing depends on them: a file that is
   missing, broken, or cannot be written is as good as none. */
#ifndef PN_BASE_NOTES_H
#define PN_BASE_NOTES_H

#include <stdbool.h>
#include <stddef.h>

/* What was last noted under key in file `name`, cut to size; false when there is nothing. */
bool pn_notes_get(const char *name, const char *key, char *value, size_t size);

/* Notes it, in place of what the key had. A file keeps its newest few kilobytes. Two processes that do so at
   once leave a whole file, with the note of one of them at least. Key and value hold no tab and no line end.
 */
void pn_notes_put(const char *name, const char *key, const char *value);

#endif
