/* SPDX-License-Identifier: Apache-2.0 */
#include "inspect_page.h"

#include "common.h"
#include "compression.h"
#include "term.h"

#include <stdlib.h>
#include <string.h>

#define TEMPLATE_LINES 12
#define KEY_COLUMNS    44

static uint64_t number(const json_t *object, const char *key) {
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value != NULL ? value : "";
}

static void print_heading(const char *title) {
    printf("\n%s%s%s\n", term_bold(stdout), title, term_plain(stdout));
}

static void print_label(const char *label) {
    printf("  %-16s", label);
}

static void print_text(const char *value, const char *when_empty) {
    if (value[0] == '\0') value = when_empty;
    term_print_escaped(stdout, value, strlen(value));
}

/* "134.5 M" */
static const char *short_count(uint64_t n, char buf[TERM_BYTES_MAX]) {
    static const char *const units[] = {"", " K", " M", " G", " T", " P", " E"};
    double value = (double)n;
    size_t unit = 0;
    for (; value >= 1000; unit++)
        value /= 1000;
    snprintf(buf, TERM_BYTES_MAX, "%.*f%s", unit > 0 ? 1 : 0, value, units[unit]);
    return buf;
}

/* A number that the architecture names, such as llama.block_count, or NULL. */
static const json_t *find_trait(const json_t *root, const char *suffix) {
    char *key = cli_format("%s.%s", text(root, "architecture"), suffix);
    const json_t *value = json_object_get(json_object_get(root, "metadata"), key);
    free(key);
    return json_is_integer(value) ? value : NULL;
}

static void print_traits(const json_t *root) {
    static const struct {
        const char *suffix, *label;
    } traits[] = {
        {"block_count", "layers"},
        {"embedding_length", "width"},
        {"attention.head_count", "heads"},
        {"attention.head_count_kv", "KV heads"},
        {"attention.sliding_window", "window"},
        {"context_length", "context"},
    };
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++) {
        const json_t *value = find_trait(root, traits[i].suffix);
        if (value == NULL) continue;
        print_label(traits[i].label);
        printf("%lld\n", (long long)json_integer_value(value));
    }
}

static void print_summary(const json_t *root) {
    char buf[TERM_BYTES_MAX];
    fputs(term_bold(stdout), stdout);
    print_text(text(root, "name"), "(no name)");
    puts(term_plain(stdout));
    print_label("file");
    print_text(text(root, "file"), "");
    printf(" (%s, %s", term_bytes(number(root, "bytes"), buf), text(root, "format"));
    if (number(root, "shards") > 1) printf(", %llu files", (unsigned long long)number(root, "shards"));
    puts(")");
    print_label("architecture");
    print_text(text(root, "architecture"), "not named");
    puts(json_is_true(json_object_get(root, "supported")) ? "" : " (this version cannot run it)");
    print_label("parameters");
    puts(short_count(number(root, "parameters"), buf));
    print_traits(root);
}

static void print_types(const json_t *root) {
    const json_t *tensors = json_object_get(root, "tensors"), *entry;
    char weights[TERM_BYTES_MAX], bytes[TERM_BYTES_MAX];
    size_t i;
    print_heading("tensors");
    printf("  %-18s %8s %10s %12s\n", "type", "number", "weights", "bytes");
    json_array_foreach(json_object_get(tensors, "by_type"), i, entry) {
        printf("  %-18s %8llu %10s %12s\n", text(entry, "type"), (unsigned long long)number(entry, "n"),
               short_count(number(entry, "weights"), weights), term_bytes(number(entry, "bytes"), bytes));
    }
    printf("  %.2f bits per weight over all\n",
           json_number_value(json_object_get(tensors, "bits_per_weight")));
}

/* The KV cache at 1k, 4k, 16k … tokens and at the context the model was trained for. */
static void print_kv(uint64_t per_token, uint64_t n_ctx_train) {
    char buf[TERM_BYTES_MAX];
    print_label("KV cache (f16)");
    printf("%10s per token\n", term_bytes(per_token, buf));
    uint64_t most = n_ctx_train > 0 ? n_ctx_train : 16384;
    for (uint64_t n = 1024; n < most && per_token <= UINT64_MAX / most; n *= 4) {
        print_label("");
        printf("%10s for %llu tokens\n", term_bytes(n * per_token, buf), (unsigned long long)n);
    }
    if (per_token > UINT64_MAX / most) return;
    print_label("");
    printf("%10s for %llu tokens%s\n", term_bytes(most * per_token, buf), (unsigned long long)most,
           n_ctx_train > 0 ? ", the context it was trained for" : "");
}

static void print_walls(const json_t *root) {
    const json_t *walls = json_object_get(root, "walls");
    const json_t *context = find_trait(root, "context_length");
    char buf[TERM_BYTES_MAX];
    print_heading("walls");
    print_label("weights");
    printf("%10s\n", term_bytes(number(walls, "weights_bytes"), buf));
    if (json_is_integer(json_object_get(walls, "kv_bytes_per_token_f16"))) {
        print_kv(number(walls, "kv_bytes_per_token_f16"),
                 json_integer_value(context) > 0 ? (uint64_t)json_integer_value(context) : 0);
    } else {
        print_label("KV cache");
        puts("unknown: the file does not say how many heads it has");
    }
    print_label("decode reads");
    printf("%10s of weights per token\n", term_bytes(number(walls, "decode_bytes_per_token"), buf));
}

static void print_compression(const inspect_compression *c, bool full) {
    if (c->status == PN_ERR_UNSUPPORTED) return;
    print_heading("compression");
    if (c->status != PN_OK) {
        fputs("  ", stdout);
        print_text(c->error.message, "");
        putchar('\n');
        return;
    }
    compression_print_facts(stdout, &c->report);
    compression_print_types(stdout, &c->report);
    if (full) compression_print_tensors(stdout, &c->report);
}

static void print_value(const json_t *value, bool full, size_t columns) {
    const char *array_type = text(value, "array");
    if (array_type[0] != '\0') printf("%llu x %s: ", (unsigned long long)number(value, "n"), array_type);
    const json_t *shown = array_type[0] != '\0' ? json_object_get(value, "first") : value;
    char *json = json_dumps(shown, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    const char *line = json_is_string(shown) ? json_string_value(shown) : json != NULL ? json : "";
    if (full)
        term_print_escaped(stdout, line, strlen(line));
    else
        term_print_shortened(stdout, line, strlen(line), columns);
    if (array_type[0] != '\0') fputs(" …", stdout);
    putchar('\n');
    free(json);
}

static void print_metadata(json_t *root, bool full) {
    const char *key;
    json_t *value;
    int columns = term_columns(stdout) - KEY_COLUMNS - 4;
    print_heading("metadata");
    json_object_foreach(json_object_get(root, "metadata"), key, value) {
        if (strcmp(key, "tokenizer.chat_template") == 0 || strcmp(key, "postern.compression.report") == 0)
            continue; /* have sections of their own */
        fputs("  ", stdout);
        term_print_escaped(stdout, key, strlen(key));
        size_t width = term_width(key, strlen(key));
        printf("%*s ", width < KEY_COLUMNS ? (int)(KEY_COLUMNS - width) : 0, "");
        bool is_array = text(value, "array")[0] != '\0';
        print_value(value, full, (size_t)(columns > 60 ? columns : 60) - (is_array ? 24 : 0));
    }
}

static void print_template(const json_t *root, bool full) {
    const char *at = text(root, "chat_template");
    print_heading("chat template");
    if (at[0] == '\0') puts("  none");
    for (int line = 0; at[0] != '\0'; line++) {
        size_t len = strcspn(at, "\n");
        fputs("  ", stdout);
        if (!full && line == TEMPLATE_LINES) {
            puts("… (--full shows all)");
            return;
        }
        if (full)
            term_print_escaped(stdout, at, len);
        else
            term_print_shortened(stdout, at, len, (size_t)term_columns(stdout) * 2);
        putchar('\n');
        at += len + (at[len] == '\n');
    }
}

static void print_tensors(const json_t *root) {
    const json_t *tensor, *size;
    size_t i, dimension;
    print_heading("all tensors");
    json_array_foreach(json_object_get(root, "tensor_list"), i, tensor) {
        char buf[TERM_BYTES_MAX];
        printf("  %-8s %10s  ", text(tensor, "type"), term_bytes(number(tensor, "bytes"), buf));
        print_text(text(tensor, "name"), "");
        json_array_foreach(json_object_get(tensor, "shape"), dimension, size) {
            printf("%s%lld", dimension > 0 ? " x " : "  ", (long long)json_integer_value(size));
        }
        putchar('\n');
    }
}

void inspect_page_print(json_t *root, const inspect_compression *compression, bool full) {
    print_summary(root);
    print_types(root);
    print_walls(root);
    print_compression(compression, full);
    print_metadata(root, full);
    print_template(root, full);
    if (full) print_tensors(root);
}
