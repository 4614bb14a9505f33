/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a fuzz target over every file of a corpus folder, without a fuzzing engine. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    struct stat st;
    if (fstat(fileno(file), &st) != 0) {
        fclose(file);
        return -1;
    }
    size_t size = (size_t)st.st_size;
    uint8_t *data = malloc(size ? size : 1); /* exactly sized, so that a sanitizer sees a read past the end */
    size_t got = data ? fread(data, 1, size, file) : 0;
    fclose(file);
    if (data && got == size) LLVMFuzzerTestOneInput(data, size);
    free(data);
    return data && got == size ? 0 : -1;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER\n", argv[0]);
        return 2;
    }
    DIR *dir = opendir(argv[1]);
    if (!dir) {
        perror(argv[1]);
        return 1;
    }
    int n = 0, failed = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        if (replay_file(path) != 0) {
            fprintf(stderr, "cannot read %s\n", path);
            failed++;
        }
        n++;
    }
    closedir(dir);
    printf("%d inputs replayed\n", n);
    return failed || n == 0; /* an empty corpus would check nothing */
}
