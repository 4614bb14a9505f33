/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include "common.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The directory named by an XDG variable, else home_part under HOME. The standard says to ignore relative
 * paths. */
static char *base_directory(const char *variable, const char *home_part) {
    const char *given = getenv(variable), *home = getenv("HOME");
    if (given != NULL && given[0] == '/') return cli_format("%s", given);
    return home != NULL && home[0] == '/' ? cli_format("%s/%s", home, home_part) : NULL;
}

char *paths_default_model(void) {
    char *cache = base_directory("XDG_CACHE_HOME", ".cache");
    if (cache == NULL) return NULL;
    char *path = cli_format("%s/postern/SmolLM2-135M-Instruct.Q4_1.gguf", cache);
    free(cache);
    return path;
}

/* Makes every directory that path leads through. */
static bool make_parents(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) return false;
    }
    return true;
}

char *paths_history(void) {
    char *state = base_directory("XDG_STATE_HOME", ".local/state");
    if (state == NULL) return NULL;
    char *path = cli_format("%s/postern/history", state);
    free(state);
    if (make_parents(path)) return path;
    free(path);
    return NULL;
}
