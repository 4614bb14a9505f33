/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a compression: above, the bytes of each layer by bits; below, the error of each matrix on a
   logarithmic scale. Embedding and output head, which are as large as many layers, stand apart on a scale of
   their own. Text and shapes alone, so that any viewer of SVG shows it; colours follow the viewer's theme. */
#include "compression.h"

#include "common.h"
#include "term.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 960,
    HEIGHT = 600,
    LEFT = 70,   /* of the layers' axes */
    RIGHT = 735, /* end of the layers' axes */
    APART = 805, /* of those that stand apart */
    END = 940,   /* end of those */
    BARS_TOP = 110,
    BARS_BOTTOM = 300,
    DOTS_TOP = 350,
    DOTS_BOTTOM = 555
};

#define WIDEST_SLOT 80.0 /* of one layer */
#define APART_SLOTS 3    /* embedding, output head, the rest */

/* What a tensor became, from the bottom of a bar to its top. */
typedef enum kind { FOUR_BITS, EIGHT_BITS, KEPT, KIND_COUNT } kind;
static const char *const kind_class[] = {"four", "eight", "kept"};
static const char *const kind_label[] = {"4 bits", "8 bits", "kept as it was"};

static kind kind_of(const pn_compressed_tensor *t) {
    return t->bits == 0 ? KEPT : t->bits <= 4 ? FOUR_BITS : EIGHT_BITS;
}

/* A column of the picture: a layer, or what stands apart. */
typedef struct slot {
    uint64_t bytes[KIND_COUNT];
    size_t n_matrices;   /* dots */
    unsigned long layer; /* of the model */
} slot;

typedef struct picture {
    FILE *out;
    const pn_compress_result *r;
    size_t *slot_of; /* [n_tensors]: layers in order, then those apart */
    slot *slots;
    size_t n_layers;
    bool by_outputs;         /* errors are of outputs where they are known */
    double most, most_apart; /* bytes of a slot */
    int low, high;           /* decades of the axis of errors */
} picture;

/* ---- which tensor stands where ---- */

static bool layer_of(const char *name, unsigned long *layer) {
    char *end;
    if (strncmp(name, "blk.", 4) != 0 || name[4] < '0' || name[4] > '9') return false;
    *layer = strtoul(name + 4, &end, 10);
    return *end == '.';
}

static int compare_layers(const void *a, const void *b) {
    const unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
    return x < y ? -1 : x > y;
}

/* The numbers of the layers, each once, in order. */
static unsigned long *list_layers(const pn_compress_result *r, size_t *n_layers) {
    unsigned long *layers = cli_realloc(NULL, r->n_tensors + 1, sizeof *layers);
    size_t n = 0, n_kept = 0;
    for (size_t i = 0; i < r->n_tensors; i++)
        n += layer_of(r->tensors[i].name, &layers[n]);
    qsort(layers, n, sizeof *layers, compare_layers);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || layers[i] != layers[n_kept - 1]) layers[n_kept++] = layers[i];
    *n_layers = n_kept;
    return layers;
}

static size_t find_slot(const unsigned long *layers, size_t n_layers, const char *name) {
    unsigned long layer;
    if (layer_of(name, &layer)) {
        const unsigned long *found = bsearch(&layer, layers, n_layers, sizeof *layers, compare_layers);
        return (size_t)(found - layers);
    }
    if (strcmp(name, "token_embd.weight") == 0) return n_layers;
    return n_layers + (strcmp(name, "output.weight") == 0 ? 1 : 2);
}

static double bytes_of(const slot *s) {
    return (double)(s->bytes[FOUR_BITS] + s->bytes[EIGHT_BITS] + s->bytes[KEPT]);
}

static void fill_slots(picture *p) {
    unsigned long *layers = list_layers(p->r, &p->n_layers);
    const size_t n_slots = p->n_layers + APART_SLOTS;
    p->slots = cli_realloc(NULL, n_slots, sizeof *p->slots);
    p->slot_of = cli_realloc(NULL, p->r->n_tensors + 1, sizeof *p->slot_of);
    for (size_t i = 0; i < n_slots; i++)
        p->slots[i] = (slot){.layer = i < p->n_layers ? layers[i] : 0};
    for (size_t i = 0; i < p->r->n_tensors; i++) {
        const pn_compressed_tensor *t = &p->r->tensors[i];
        p->slot_of[i] = find_slot(layers, p->n_layers, t->name);
        slot *s = &p->slots[p->slot_of[i]];
        s->bytes[kind_of(t)] += t->bytes_after;
        s->n_matrices += t->error > 0;
    }
    for (size_t i = 0; i < n_slots; i++) {
        double *most = i < p->n_layers ? &p->most : &p->most_apart;
        if (bytes_of(&p->slots[i]) > *most) *most = bytes_of(&p->slots[i]);
    }
    free(layers);
}

static double error_of(const picture *p, const pn_compressed_tensor *t) {
    return p->by_outputs && t->output_error > 0 ? t->output_error : t->error;
}

/* Whole decades around all errors, at least one, and none below those of a double. */
static void find_decades(picture *p) {
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < p->r->n_tensors; i++)
        if (p->r->tensors[i].output_error > 0) p->by_outputs = true;
    for (size_t i = 0; i < p->r->n_tensors; i++) {
        const double error = error_of(p, &p->r->tensors[i]);
        if (error <= 0) continue;
        if (error < least) least = error;
        if (error > most) most = error;
    }
    if (most <= 0) least = most = 1e-3;
    p->low = (int)floor(log10(fmax(least, 1e-16)));
    p->high = (int)ceil(log10(fmin(fmax(most, 1e-15), 1e16)));
    if (p->high <= p->low) p->high = p->low + 1;
}

/* ---- places on the page ---- */

static double slot_width(const picture *p) {
    const double even = (double)(RIGHT - LEFT) / (double)(p->n_layers > 0 ? p->n_layers : 1);
    return fmin(even, WIDEST_SLOT);
}

static double apart_width(void) {
    return (double)(END - APART) / APART_SLOTS;
}

static double width_at(const picture *p, size_t i) {
    return i < p->n_layers ? slot_width(p) : apart_width();
}

/* The left edge of a slot. */
static double x_of(const picture *p, size_t i) {
    if (i < p->n_layers) return LEFT + (double)i * slot_width(p);
    return APART + (double)(i - p->n_layers) * apart_width();
}

static double y_of_error(const picture *p, double error) {
    const double share = (log10(error) - p->low) / (p->high - p->low);
    return DOTS_BOTTOM - (DOTS_BOTTOM - DOTS_TOP) * fmin(fmax(share, 0), 1);
}

/* ---- pieces ---- */

/* At most so many characters, with an ellipsis where there are more; for free(). */
static char *shortened(const char *text, size_t most) {
    const size_t len = strlen(text);
    size_t n = 0, n_chars = 0;
    int32_t c;
    for (; n < len && n_chars < most; n_chars++)
        n += term_decode(text + n, len - n, &c);
    return cli_format("%.*s%s", (int)n, text, n < len ? "…" : "");
}

/* Text that came from a file, as the text of an element or the value of an attribute. Characters that XML
   does not allow become U+FFFD. */
static void put_text(FILE *out, const char *text) {
    const size_t len = strlen(text);
    for (size_t i = 0, n; i < len; i += n) {
        int32_t c;
        n = term_decode(text + i, len - i, &c);
        if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
            fprintf(out, "&#%d;", (int)c);
        else if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff)
            fputs("\xEF\xBF\xBD", out);
        else
            fwrite(text + i, 1, n, out);
    }
}

static void put_label(FILE *out, double x, double y, const char *anchor, const char *class,
                      const char *text) {
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    put_text(out, text);
    fputs("</text>\n", out);
}

static void put_line(FILE *out, double x1, double y1, double x2, double y2, const char *class) {
    fprintf(out, "<path d=\"M%.1f %.1fL%.1f %.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class);
}

static void put_head(picture *p, const char *name) {
    fprintf(p->out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "role=\"img\">\n<title>",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_text(p->out, name);
    fputs(": what compression did</title>\n<style>\n"
          "text{font:12px system-ui,\"DejaVu Sans\",sans-serif;fill:#24292f}"
          ".title{font-size:18px;font-weight:600}.dim{fill:#57606a}\n"
          ".page{fill:#fff}.grid{stroke:#d8dee4;fill:none}.axis{stroke:#8c959f;fill:none}\n"
          ".four{fill:#2f6fb5}.eight{fill:#d9822b}.kept{fill:#8c959f}\n"
          "circle,rect.dot{fill-opacity:.75}.hollow{fill-opacity:0!important;stroke-width:1.5}\n"
          ".hollow.four{stroke:#2f6fb5}.hollow.eight{stroke:#d9822b}.hollow.kept{stroke:#8c959f}\n"
          "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.dim{fill:#9da7b3}.page{fill:#0d1117}"
          ".grid{stroke:#2b323b}.axis{stroke:#6e7681}\n"
          ".four{fill:#6cb0f5}.eight{fill:#f0a54f}.kept{fill:#8b949e}"
          ".hollow.four{stroke:#6cb0f5}.hollow.eight{stroke:#f0a54f}.hollow.kept{stroke:#8b949e}}\n"
          "</style>\n",
          p->out);
    fprintf(p->out, "<rect class=\"page\" width=\"%d\" height=\"%d\"/>\n", WIDTH, HEIGHT);
}

static void put_title(picture *p, const char *name) {
    const pn_compress_result *r = p->r;
    char before[TERM_BYTES_MAX], after[TERM_BYTES_MAX], groups[32] = "a scale per row", calibration[64] = "";
    if (r->group_size > 0) snprintf(groups, sizeof groups, "groups of %d", r->group_size);
    if (r->calibration_sequences > 0)
        snprintf(calibration, sizeof calibration, ", calibrated on %d × %d tokens", r->calibration_sequences,
                 r->calibration_tokens);
    char *short_name = shortened(name, 40), *source = shortened(r->source, 40),
         *mode = shortened(r->mode, 16);
    char *title = cli_format("%s: %s instead of %s, %.2f bits per weight", short_name,
                             term_bytes(r->bytes_after, after), term_bytes(r->bytes_before, before),
                             compression_bits_per_weight(r));
    char *subtitle = cli_format("%s to %s, %s, %.1f%% of the layers' weights in 4 bits%s", source, mode,
                                groups, 100 * r->ratio, calibration);
    put_label(p->out, LEFT, 34, "start", "title", title);
    put_label(p->out, LEFT, 55, "start", "dim", subtitle);
    free(short_name);
    free(source);
    free(mode);
    free(title);
    free(subtitle);
}

static void put_mark(picture *p, double x, double y, double radius, const char *class, bool is_square) {
    if (is_square)
        fprintf(p->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" class=\"dot %s\"",
                x - radius, y - radius, 2 * radius, 2 * radius, class);
    else
        fprintf(p->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" class=\"%s\"", x, y, radius, class);
}

static void put_legend(picture *p) {
    double x = LEFT;
    for (kind k = FOUR_BITS; k < KIND_COUNT; k++) {
        put_mark(p, x + 5, 76, 5, kind_class[k], true);
        fputs("/>\n", p->out);
        put_label(p->out, x + 16, 80, "start", "dim", kind_label[k]);
        x += k == KEPT ? 140 : 80;
    }
    static const char *const shapes[] = {"attention", "feed-forward and others"};
    for (int i = 0; i < 2; i++, x += 100) {
        put_mark(p, x + 5, 76, 4, "kept", i == 1);
        fputs("/>\n", p->out);
        put_label(p->out, x + 16, 80, "start", "dim", shapes[i]);
    }
    if (!p->by_outputs) return;
    put_mark(p, x + 85, 76, 4, "kept hollow", true);
    fputs("/>\n", p->out);
    put_label(p->out, x + 96, 80, "start", "dim", "error of weights instead");
}

/* ---- bytes ---- */

/* A step of 1, 2 or 5 times a power of ten, of which some four make up `most`. */
static double nice_step(double most) {
    const double rough = most / 4, power = pow(10, floor(log10(rough)));
    const double digit = rough / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/* Ticks at round numbers of the unit that fits, and the lines of the grid. */
static void put_bytes_axis(picture *p, double most, double x, double x_end) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double unit = 1;
    size_t u = 0;
    if (most <= 0) return;
    for (; u < 6 && most >= 2 * unit; u++)
        unit *= 1024;
    if (most < unit && u > 0) {
        unit /= 1024;
        u--;
    }
    const double step = nice_step(most / unit);
    for (int i = 0; i * step * unit <= most * 1.0001; i++) {
        const double y = BARS_BOTTOM - (BARS_BOTTOM - BARS_TOP) * i * step * unit / most;
        char text[48];
        snprintf(text, sizeof text, "%.4g %s", i * step, units[u]);
        put_line(p->out, x, y, x_end, y, i > 0 ? "grid" : "axis");
        put_label(p->out, x - 6, y + 4, "end", "dim", i > 0 ? text : "0");
    }
}

static void put_bar(picture *p, size_t i, double most) {
    const slot *s = &p->slots[i];
    const double width = fmin(width_at(p, i) * 0.8, 40), x = x_of(p, i) + (width_at(p, i) - width) / 2;
    double y = BARS_BOTTOM;
    for (kind k = FOUR_BITS; k < KIND_COUNT; k++) {
        if (s->bytes[k] == 0) continue;
        const double height = (BARS_BOTTOM - BARS_TOP) * (double)s->bytes[k] / most;
        char size[TERM_BYTES_MAX];
        y -= height;
        fprintf(p->out,
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"%s\"><title>%s, "
                "%s</title></rect>\n",
                x, y, width, height, kind_class[k], term_bytes(s->bytes[k], size), kind_label[k]);
    }
}

static void put_bars(picture *p) {
    put_label(p->out, LEFT, BARS_TOP - 8, "start", "", "bytes of each layer");
    put_bytes_axis(p, p->most, LEFT, RIGHT);
    put_bytes_axis(p, p->most_apart, APART, END);
    for (size_t i = 0; i < p->n_layers + APART_SLOTS; i++)
        put_bar(p, i, i < p->n_layers ? p->most : p->most_apart);
}

/* ---- errors ---- */

static void put_decades(picture *p) {
    const int step = (p->high - p->low + 7) / 8; /* so that the labels have room */
    for (int decade = p->low; decade <= p->high; decade += step) {
        const double y = y_of_error(p, pow(10, decade));
        char text[32];
        snprintf(text, sizeof text, "%g", pow(10, decade));
        put_line(p->out, LEFT, y, RIGHT, y, decade > p->low ? "grid" : "axis");
        put_line(p->out, APART, y, END, y, decade > p->low ? "grid" : "axis");
        put_label(p->out, LEFT - 6, y + 4, "end", "dim", text);
    }
}

/* Dots of one layer stand side by side, in the order of the file. */
static void put_dot(picture *p, const pn_compressed_tensor *t, size_t i, size_t in_slot) {
    const double error = error_of(p, t), width = width_at(p, i);
    const double x =
        x_of(p, i) + width * (0.1 + 0.8 * ((double)in_slot + 0.5) / (double)p->slots[i].n_matrices);
    const double radius = fmin(fmax(width / 10, 1.3), 4);
    const bool is_hollow = p->by_outputs && t->output_error <= 0;
    char class[32];
    snprintf(class, sizeof class, "%s%s", kind_class[kind_of(t)], is_hollow ? " hollow" : "");
    put_mark(p, x, y_of_error(p, error), radius, class, strstr(t->name, ".attn_") == NULL);
    fputs("><title>", p->out);
    put_text(p->out, t->name);
    fprintf(p->out, ": %s, error of weights %.2g", t->type_after, t->error);
    if (t->output_error > 0) fprintf(p->out, ", of outputs %.2g", t->output_error);
    fprintf(p->out, "</title></%s>\n", strstr(t->name, ".attn_") ? "circle" : "rect");
}

static void put_worst(picture *p) {
    const pn_compressed_tensor *worst = NULL;
    for (size_t i = 0; i < p->r->n_tensors; i++)
        if (!worst || error_of(p, &p->r->tensors[i]) > error_of(p, worst)) worst = &p->r->tensors[i];
    if (!worst || error_of(p, worst) <= 0) return;
    char *name = shortened(worst->name, 40), *text = cli_format("worst: %s, %.2g", name, error_of(p, worst));
    put_label(p->out, RIGHT, DOTS_TOP - 8, "end", "dim", text);
    free(name);
    free(text);
}

static void put_dots(picture *p) {
    size_t *n_before = cli_realloc(NULL, p->n_layers + APART_SLOTS, sizeof *n_before);
    memset(n_before, 0, (p->n_layers + APART_SLOTS) * sizeof *n_before);
    put_label(p->out, LEFT, DOTS_TOP - 8, "start", "",
              p->by_outputs ? "error of each matrix's outputs, squared, over their squares"
                            : "error of each matrix's weights, squared, over their squares");
    put_worst(p);
    put_decades(p);
    for (size_t i = 0; i < p->r->n_tensors; i++) {
        const size_t at = p->slot_of[i];
        if (p->r->tensors[i].error > 0) put_dot(p, &p->r->tensors[i], at, n_before[at]++);
    }
    free(n_before);
}

/* ---- the labels below ---- */

static void put_names(picture *p, double y) {
    static const char *const apart[APART_SLOTS] = {"embed.", "head", "rest"};
    const size_t most = 25;
    size_t step = 1;
    for (size_t i = 0; (p->n_layers + step - 1) / step > most; i++)
        step = i % 3 == 0 ? 2 * step : i % 3 == 1 ? step / 2 * 5 : 2 * step;
    for (size_t i = 0; i < p->n_layers; i += step) {
        char text[32];
        snprintf(text, sizeof text, "%lu", p->slots[i].layer);
        put_label(p->out, x_of(p, i) + slot_width(p) / 2, y, "middle", "dim", text);
    }
    for (size_t i = 0; i < APART_SLOTS; i++)
        put_label(p->out, x_of(p, p->n_layers + i) + apart_width() / 2, y, "middle", "dim", apart[i]);
}

void compression_draw(FILE *out, const pn_compress_result *r, const char *name) {
    picture p = {.out = out, .r = r};
    fill_slots(&p);
    find_decades(&p);
    put_head(&p, name);
    put_title(&p, name);
    put_legend(&p);
    put_bars(&p);
    put_names(&p, BARS_BOTTOM + 16);
    put_dots(&p);
    put_names(&p, DOTS_BOTTOM + 16);
    put_label(out, LEFT, DOTS_BOTTOM + 34, "start", "dim", "layer");
    fputs("</svg>\n", out);
    free(p.slots);
    free(p.slot_of);
}
