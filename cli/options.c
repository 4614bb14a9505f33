/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include "common.h"
#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BIAS_MAX 10000.0

typedef struct parser {
    const cli_command *command;
    char *args;
    char **argv;
    int argc, at;
} parser;

static bool takes_value(const cli_option *option) {
    return option->placeholder != NULL;
}

/* A heading of the help page has a name too. */
static bool is_option(const cli_option *o) {
    return o->kind != CLI_GROUP;
}

static const cli_option *find_long(const cli_command *command, const char *name, size_t len) {
    for (const cli_option *o = command->options; o->kind != CLI_END; o++) {
        if (is_option(o) && strlen(o->name) == len && memcmp(o->name, name, len) == 0) return o;
    }
    return NULL;
}

static const cli_option *find_short(const cli_command *command, char letter) {
    for (const cli_option *o = command->options; o->kind != CLI_END; o++) {
        if (o->letter == letter) return o;
    }
    return NULL;
}

static bool set_choice(const cli_option *option, const char *value, int *out) {
    size_t len = strlen(value);
    int index = 0;
    for (const char *choice = option->placeholder;; index++) {
        size_t n = strcspn(choice, "|");
        if (n == len && memcmp(choice, value, n) == 0) {
            *out = index;
            return true;
        }
        if (choice[n] == '\0') return false;
        choice += n + 1;
    }
}

static bool add_ints(const cli_option *option, const char *value, cli_ints *list) {
    for (;;) {
        size_t len = strcspn(value, ",");
        int number;
        if (!number_int(value, len, (int)option->min, (int)option->max, &number)) return false;
        list->items = cli_realloc(list->items, list->n + 1, sizeof *list->items);
        list->items[list->n++] = number;
        if (value[len] == '\0') return true;
        value += len + 1;
    }
}

static bool add_biases(const char *value, cli_biases *list) {
    for (;;) {
        size_t len = strcspn(value, ","), id_len = strcspn(value, "=");
        pn_logit_bias bias;
        if (id_len >= len || !number_int(value, id_len, 0, INT32_MAX, &bias.id) ||
            !number_float(value + id_len + 1, len - id_len - 1, (double)-INFINITY, BIAS_MAX, &bias.bias))
            return false;
        list->items = cli_realloc(list->items, list->n + 1, sizeof *list->items);
        list->items[list->n++] = bias;
        if (value[len] == '\0') return true;
        value += len + 1;
    }
}

static void add_text(cli_texts *list, const char *value) {
    list->items = cli_realloc(list->items, list->n + 1, sizeof *list->items);
    list->items[list->n++] = value;
}

/* Puts the value where the option's table row says; false when it is not of the option's kind or range. */
static bool store(const cli_option *option, char *args, const char *value) {
    void *field = args + option->offset;
    switch (option->kind) {
    case CLI_ON:
    case CLI_OFF:
        *(bool *)field = option->kind == CLI_ON;
        return true;
    case CLI_INT:
        return number_int(value, strlen(value), (int)option->min, (int)option->max, field);
    case CLI_FLOAT:
        return number_float(value, strlen(value), option->min, option->max, field);
    case CLI_BYTES:
        return number_bytes(value, field);
    case CLI_TEXT:
        *(const char **)field = value;
        return true;
    case CLI_CHOICE:
        return set_choice(option, value, field);
    case CLI_SEED:
        ((cli_seed *)field)->given = true;
        return number_u64(value, &((cli_seed *)field)->value);
    case CLI_TIME:
        return number_time(value, field);
    case CLI_TEXTS:
        add_text(field, value);
        return true;
    case CLI_INTS:
        return add_ints(option, value, field);
    case CLI_BIASES:
        return add_biases(value, field);
    case CLI_END:
    case CLI_GROUP:
        break;
    }
    return false;
}

static void report_value(const cli_option *option, const char *value) {
    static const char *const expected[] = {
        [CLI_SEED] = "a whole number from 0 to 18446744073709551615",
        [CLI_BYTES] = "a size such as 900M or 1.2G",
        [CLI_TIME] = "2026-01-02, 2026-01-02T03:04:05 or Unix seconds",
        [CLI_BIASES] = "ID=BIAS[,ID=BIAS...] with whole ids and biases up to 10000 (-inf bans)",
    };
    if (option->kind == CLI_INT || option->kind == CLI_INTS)
        cli_error(CLI_USAGE, "--%s: '%s' is not %s from %.0f to %.0f", option->name, value,
                  option->kind == CLI_INT ? "a whole number" : "a list N,N,... of whole numbers", option->min,
                  option->max);
    else if (option->kind == CLI_FLOAT)
        cli_error(CLI_USAGE, "--%s: '%s' is not a number from %g to %g", option->name, value, option->min,
                  option->max);
    else if (option->kind == CLI_CHOICE)
        cli_error(CLI_USAGE, "--%s: '%s' is not one of %s", option->name, value, option->placeholder);
    else
        cli_error(CLI_USAGE, "--%s: '%s' is not %s", option->name, value, expected[option->kind]);
}

static cli_parse report_unknown(const parser *p, const char *given, size_t len) {
    char *shown = cli_format("%.*s", (int)len, given);
    cli_nearest nearest = {.given = shown + strspn(shown, "-")};
    cli_nearest_offer(&nearest, "help");
    for (const cli_option *o = p->command->options; o->kind != CLI_END; o++) {
        if (is_option(o)) cli_nearest_offer(&nearest, o->name);
    }
    if (nearest.best != NULL)
        cli_error(CLI_USAGE, "%s: unknown option %s; did you mean --%s?", p->command->name, shown,
                  nearest.best);
    else
        cli_error(CLI_USAGE, "%s: unknown option %s; see postern help %s", p->command->name, shown,
                  p->command->name);
    free(shown);
    return CLI_PARSE_BAD;
}

static cli_parse apply(parser *p, const cli_option *option, const char *attached) {
    const char *value = attached;
    if (!takes_value(option)) {
        if (attached != NULL) {
            cli_error(CLI_USAGE, "--%s takes no value", option->name);
            return CLI_PARSE_BAD;
        }
    } else if (value == NULL) {
        if (p->at + 1 >= p->argc) {
            cli_error(CLI_USAGE, "--%s needs a value: %s", option->name, option->placeholder);
            return CLI_PARSE_BAD;
        }
        value = p->argv[++p->at];
    }
    if (store(option, p->args, value)) return CLI_PARSE_OK;
    report_value(option, value);
    return CLI_PARSE_BAD;
}

static cli_parse parse_option(parser *p, const char *arg) {
    if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) return CLI_PARSE_HELP;
    if (arg[1] == '-') {
        size_t len = strcspn(arg + 2, "=");
        const cli_option *option = find_long(p->command, arg + 2, len);
        if (option == NULL) return report_unknown(p, arg, len + 2);
        return apply(p, option, arg[2 + len] == '=' ? arg + 2 + len + 1 : NULL);
    }
    const cli_option *option = find_short(p->command, arg[1]);
    if (option == NULL || (arg[2] != '\0' && !takes_value(option)))
        return report_unknown(p, arg, strlen(arg));
    return apply(p, option, arg[2] != '\0' ? arg + 2 : NULL);
}

static cli_parse check_operands(const cli_command *command, const cli_texts *operands) {
    if (operands->n < command->min_operands)
        cli_error(CLI_USAGE, "%s: an operand is missing: postern %s %s", command->name, command->name,
                  command->operands);
    else if (operands->n > command->max_operands)
        cli_error(CLI_USAGE, "%s: '%s' is one operand too many: postern %s %s", command->name,
                  operands->items[command->max_operands], command->name, command->operands);
    else
        return CLI_PARSE_OK;
    return CLI_PARSE_BAD;
}

cli_parse cli_options_parse(const cli_command *command, int argc, char **argv, void *args,
                            cli_texts *operands) {
    parser p = {.command = command, .args = args, .argv = argv, .argc = argc};
    bool only_operands = false;
    for (; p.at < p.argc; p.at++) {
        const char *arg = argv[p.at];
        if (!only_operands && strcmp(arg, "--") == 0) {
            only_operands = true;
        } else if (only_operands || arg[0] != '-' || arg[1] == '\0') {
            add_text(operands, arg);
        } else {
            cli_parse parsed = parse_option(&p, arg);
            if (parsed != CLI_PARSE_OK) return parsed;
        }
    }
    return check_operands(command, operands);
}

void cli_options_free(const cli_command *command, void *args, cli_texts *operands) {
    for (const cli_option *o = command->options; o->kind != CLI_END; o++) {
        void *field = (char *)args + o->offset;
        if (o->kind == CLI_TEXTS)
            free(((cli_texts *)field)->items);
        else if (o->kind == CLI_INTS)
            free(((cli_ints *)field)->items);
        else if (o->kind == CLI_BIASES)
            free(((cli_biases *)field)->items);
    }
    free(operands->items);
}
