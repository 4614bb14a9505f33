/* SPDX-License-Identifier: Apache-2.0 */
#include "editor.h"

#include "paths.h"
#include "term.h"

#include <histedit.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_ENTRIES         500
#define HISTORY_ENTRY_MAX_BYTES 4096
#define FENCE                   "\"\"\""

struct editor {
    EditLine *el;
    History *history;
    char *history_path; /* NULL: the history is not kept */
    FILE *screen;
    const char *prompt;
    char prompt_text[64];
    bool cleared;
    bool paste_brackets; /* the terminal is told to mark pasted text */
};

static char *get_prompt(EditLine *el) {
    editor *e;
    el_get(el, EL_CLIENTDATA, &e);
    /* \1 fences the sequences that take no column, as EL_PROMPT_ESC is told. libedit shows such a sequence
     * with the character after it and loses one at the end: the prompt's last character, a blank, comes last.
     */
    const char *bold = term_bold(e->screen);
    if (bold[0] != '\0')
        snprintf(e->prompt_text, sizeof e->prompt_text, "\1%s\1%.*s\1%s\1 ", bold, (int)strlen(e->prompt) - 1,
                 e->prompt, term_plain(e->screen));
    else
        snprintf(e->prompt_text, sizeof e->prompt_text, "%s", e->prompt);
    return e->prompt_text;
}

static unsigned char on_clear(EditLine *el, int key) {
    (void)key;
    editor *e;
    el_get(el, EL_CLIENTDATA, &e);
    e->cleared = true;
    return CC_NEWLINE;
}

/* As the terminal would do it: the whole job stops. libedit's own handler saves and restores the terminal. */
static unsigned char on_suspend(EditLine *el, int key) {
    (void)el, (void)key;
    kill(0, SIGTSTP);
    return CC_REDISPLAY;
}

typedef struct paste {
    wchar_t *text;
    size_t n;
} paste;

static bool ends_with_bracket(const paste *p) {
    static const wchar_t bracket[] = L"\033[201~";
    size_t n = sizeof bracket / sizeof *bracket - 1;
    return p->n >= n && wmemcmp(p->text + p->n - n, bracket, n) == 0;
}

/* Terminals send a carriage return for each line end of pasted text. Leaves lines, tabs and printable text.
 */
static void clean_paste(paste *p) {
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++) {
        wchar_t c = p->text[i];
        if (c == L'\r' && i + 1 < p->n && p->text[i + 1] == L'\n') continue;
        if (c == L'\r') c = L'\n';
        if (c >= 0x20 || c == L'\n' || c == L'\t') p->text[n++] = c;
    }
    while (n > 0 && p->text[n - 1] == L'\n')
        n--;
    p->text[n] = L'\0';
}

static unsigned char on_paste(EditLine *el, int key) {
    (void)key;
    paste p = {0};
    wchar_t c;
    while (!ends_with_bracket(&p) && el_wgetc(el, &c) == 1) {
        p.text = cli_realloc(p.text, p.n + 2, sizeof *p.text);
        p.text[p.n++] = c;
    }
    if (ends_with_bracket(&p)) p.n -= strlen("\033[201~");
    if (p.n > 0) {
        clean_paste(&p);
        el_winsertstr(el, p.text);
    }
    free(p.text);
    return CC_REFRESH;
}

static void bind_keys(EditLine *el) {
    el_set(el, EL_ADDFN, "postern-clear", "drop the line", on_clear);
    el_set(el, EL_ADDFN, "postern-suspend", "stop the process", on_suspend);
    el_set(el, EL_ADDFN, "postern-paste", "insert pasted text", on_paste);
    /* Ctrl-C is a key at the prompt and a signal while an answer runs: only the editing mode takes the
     * signals off. */
    el_set(el, EL_SETTY, "-d", "-isig", NULL);
    el_set(el, EL_BIND, "^C", "postern-clear", NULL);
    el_set(el, EL_BIND, "^Z", "postern-suspend", NULL);
    el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    el_set(el, EL_BIND, "\033[200~", "postern-paste", NULL);
}

editor *editor_create(void) {
    editor *e = cli_realloc(NULL, 1, sizeof *e);
    HistEvent event;
    const char *term = getenv("TERM");
    *e = (editor){.screen = term_is_tty(stderr) ? stderr : stdout, .history = history_init()};
    e->paste_brackets = term != NULL && strcmp(term, "dumb") != 0;
    e->el = el_init("postern", stdin, e->screen, stderr);
    if (e->el == NULL || e->history == NULL) {
        cli_error(CLI_FAILED, "the terminal cannot be used for a chat; give a prompt with -p");
        editor_free(e);
        return NULL;
    }
    history(e->history, &event, H_SETSIZE, HISTORY_ENTRIES);
    history(e->history, &event, H_SETUNIQUE, 1);
    e->history_path = paths_history();
    if (e->history_path != NULL) history(e->history, &event, H_LOAD, e->history_path);
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_PROMPT_ESC, get_prompt, '\1');
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_SIGNAL, 1);
    el_set(e->el, EL_HIST, history, e->history);
    el_source(e->el, NULL);
    bind_keys(e->el);
    return e;
}

void editor_free(editor *e) {
    if (e == NULL) return;
    if (e->el != NULL) el_end(e->el);
    if (e->history != NULL) history_end(e->history);
    free(e->history_path);
    free(e);
}

static editor_event read_line(editor *e, const char *prompt, cli_text *out) {
    int n = 0;
    e->prompt = prompt;
    e->cleared = false;
    if (e->paste_brackets) fputs("\033[?2004h", e->screen);
    fflush(e->screen);
    el_set(e->el, EL_PREP_TERM,
           1); /* el_gets shows the prompt first: a Ctrl-C just then would still be a signal */
    const char *line = el_gets(e->el, &n);
    if (e->paste_brackets) fputs("\033[?2004l", e->screen);
    if (e->cleared || line == NULL || n <= 0) fputc('\n', e->screen);
    fflush(e->screen);
    if (e->cleared) return EDITOR_CLEARED;
    if (line == NULL || n <= 0) return EDITOR_END;
    size_t len = (size_t)n;
    if (line[len - 1] == '\n') len--;
    cli_text_append(out, line, len);
    return EDITOR_MESSAGE;
}

static bool ends_with(const cli_text *text, size_t from, const char *end) {
    size_t len = strlen(end);
    return text->len >= from + len && memcmp(text->data + text->len - len, end, len) == 0;
}

/* Goes on with `""" …` until a line ends so; the fences are taken off. */
static editor_event read_fenced(editor *e, cli_text *out) {
    editor_event event = EDITOR_MESSAGE;
    size_t fence = strlen(FENCE);
    while (event == EDITOR_MESSAGE && !ends_with(out, fence, FENCE)) {
        cli_text_append(out, "\n", 1);
        event = read_line(e, "… ", out);
    }
    if (event != EDITOR_MESSAGE) return event;
    out->len -= 2 * fence;
    memmove(out->data, out->data + fence, out->len);
    out->data[out->len] = '\0';
    return EDITOR_MESSAGE;
}

editor_event editor_read(editor *e, cli_text *out) {
    cli_text_free(out);
    cli_text_append(out, "", 0);
    editor_event event = read_line(e, "> ", out);
    if (event == EDITOR_MESSAGE && strncmp(out->data, FENCE, strlen(FENCE)) == 0) return read_fenced(e, out);
    while (event == EDITOR_MESSAGE && ends_with(out, 0, "\\")) {
        out->data[out->len - 1] = '\n';
        event = read_line(e, "… ", out);
    }
    return event;
}

void editor_remember(editor *e, const char *message) {
    HistEvent event;
    if (strlen(message) > HISTORY_ENTRY_MAX_BYTES) return;
    history(e->history, &event, H_ENTER, message);
    if (e->history_path != NULL) history(e->history, &event, H_SAVE, e->history_path);
}
