/* SPDX-License-Identifier: Apache-2.0 */
#include "template/jinja_parse.h"

#include <stdio.h>

/* ---- tokens, nodes and failures ---- */

void *pn_jparser_fail(pn_jparser *p, pn_status code, size_t at, const char *message) {
    if (p->status == PN_OK)
        p->status = pn_fail_at(p->err, code, at, "chat template, line %zu: %s",
                               pn_jinja_line(p->lexer.source, at), message);
    return NULL;
}

void *pn_jparser_expected(pn_jparser *p, const char *what) {
    char message[200], token[64];
    snprintf(message, sizeof message, "expected %s, got %s", what, pn_jtoken_describe(&p->current, token));
    return pn_jparser_fail(p, PN_ERR_FORMAT, p->current.at, message);
}

bool pn_jparser_enter(pn_jparser *p) {
    if (p->depth >= PN_JINJA_MAX_NESTING) {
        char message[64];
        snprintf(message, sizeof message, "nested deeper than %d levels", PN_JINJA_MAX_NESTING);
        pn_jparser_fail(p, PN_ERR_LIMIT, p->current.at, message);
        return false;
    }
    p->depth++;
    return true;
}

void pn_jparser_leave(pn_jparser *p) {
    p->depth--;
}

bool pn_jparser_advance(pn_jparser *p) {
    if (p->status != PN_OK) return false;
    p->current = p->next;
    if (p->current.kind != PN_JTOKEN_END) p->status = pn_jlexer_next(&p->lexer, &p->next);
    return p->status == PN_OK;
}

bool pn_jparser_at_name(const pn_jparser *p, const char *name) {
    return p->current.kind == PN_JTOKEN_NAME && pn_str_equal(p->current.text, pn_str_from(name));
}

bool pn_jparser_skip(pn_jparser *p, pn_jtoken_kind kind) {
    return p->current.kind == kind && pn_jparser_advance(p);
}

bool pn_jparser_skip_name(pn_jparser *p, const char *name) {
    return pn_jparser_at_name(p, name) && pn_jparser_advance(p);
}

bool pn_jparser_expect(pn_jparser *p, pn_jtoken_kind kind, const char *what) {
    if (p->status != PN_OK) return false;
    if (p->current.kind != kind) {
        pn_jparser_expected(p, what);
        return false;
    }
    return pn_jparser_advance(p);
}

void *pn_jparser_alloc(pn_jparser *p, size_t n, size_t size) {
    void *block = pn_arena_alloc(p->arena, n * size); /* both are bounded by the length of the source */
    if (!block && p->status == PN_OK) p->status = pn_fail_memory(p->err, "a chat template", n * size);
    return block;
}

pn_jnode *pn_jparser_node(pn_jparser *p, pn_jnode_kind kind, size_t at) {
    pn_jnode *node = p->status == PN_OK ? pn_jparser_alloc(p, 1, sizeof *node) : NULL;
    if (!node) return NULL;
    node->kind = kind;
    node->at = (uint32_t)at;
    return node;
}

bool pn_jparser_push(pn_jparser *p, pn_jnodes *list, pn_jnode *node) {
    if (!node || p->status != PN_OK) return false;
    if (list->n == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 2;
        pn_jnode **items = pn_jparser_alloc(p, cap, sizeof(pn_jnode *));
        if (!items) return false;
        if (list->n) memcpy(items, list->items, list->n * sizeof(pn_jnode *));
        list->items = items;
        list->cap = cap;
    }
    list->items[list->n++] = node;
    return true;
}

/* ---- bodies ---- */

static bool parse_body(pn_jparser *p, pn_jnodes *body, const char *const *ends);

/* Whether the tag here is one of ends (NULL-terminated; the names that close or divide the block). */
static bool at_end_tag(const pn_jparser *p, const char *const *ends) {
    for (; ends && *ends; ends++)
        if (pn_jparser_at_name(p, *ends)) return true;
    return false;
}

/* "%}", the statements up to one of ends; the current token is then its name. */
static bool parse_block(pn_jparser *p, pn_jnodes *body, const char *const *ends) {
    if (p->status != PN_OK) return false;
    pn_jparser_skip(p, PN_JTOKEN_COLON); /* Jinja2 lets a statement end in one, as in Python */
    if (!pn_jparser_expect(p, PN_JTOKEN_BLOCK_END, "'%}'") || !pn_jparser_enter(p)) return false;
    bool ok = parse_body(p, body, ends);
    pn_jparser_leave(p);
    return ok;
}

/* The same with one end tag, which is skipped. */
static bool parse_block_to(pn_jparser *p, pn_jnodes *body, const char *end) {
    const char *const ends[] = {end, NULL};
    return parse_block(p, body, ends) && pn_jparser_advance(p);
}

/* ---- statements: each begins at its own name ---- */

static pn_jnode *parse_for(pn_jparser *p, size_t at) {
    static const char *const ends[] = {"else", "endfor", NULL};
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_FOR, at);
    if (!node || !pn_jparser_advance(p) || !(node->u.loop.target = pn_jparse_target(p, false))) return NULL;
    if (!pn_jparser_at_name(p, "in")) return pn_jparser_expected(p, "'in'");
    if (!pn_jparser_advance(p) || !(node->u.loop.iterable = pn_jparse_tuple(p, false))) return NULL;
    if (pn_jparser_skip_name(p, "if") && !(node->u.loop.filter = pn_jparse_expression(p))) return NULL;
    node->u.loop.recursive = pn_jparser_skip_name(p, "recursive");
    p->loop_depth++;
    bool ok = parse_block(p, &node->u.loop.body, ends);
    p->loop_depth--;
    if (!ok) return NULL;
    bool has_else = pn_jparser_at_name(p, "else");
    if (!pn_jparser_advance(p)) return NULL;
    return !has_else || parse_block_to(p, &node->u.loop.otherwise, "endfor") ? node : NULL;
}

static pn_jnode *parse_if(pn_jparser *p, size_t at) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_IF, at);
    if (!node) return NULL;
    pn_jnodes *tests = &node->u.branches.tests;
    size_t cap = 0;
    do {
        if (!pn_jparser_advance(p) || !pn_jparser_push(p, tests, pn_jparse_tuple(p, false))) return NULL;
        if (tests->n > cap) {
            cap = cap ? 2 * cap : 1;
            pn_jnodes *bodies = pn_jparser_alloc(p, cap, sizeof *bodies);
            if (!bodies) return NULL;
            if (tests->n > 1) memcpy(bodies, node->u.branches.bodies, (tests->n - 1) * sizeof *bodies);
            node->u.branches.bodies = bodies;
        }
        if (!parse_block(p, &node->u.branches.bodies[tests->n - 1], ends)) return NULL;
    } while (pn_jparser_at_name(p, "elif"));
    bool has_else = pn_jparser_at_name(p, "else");
    if (!pn_jparser_advance(p)) return NULL;
    return !has_else || parse_block_to(p, &node->u.branches.otherwise, "endif") ? node : NULL;
}

static pn_jnode *parse_set(pn_jparser *p, size_t at) {
    if (!pn_jparser_advance(p)) return NULL;
    pn_jnode *target = pn_jparse_target(p, true);
    if (!target) return NULL;
    bool is_block = p->current.kind != PN_JTOKEN_ASSIGN;
    pn_jnode *node = pn_jparser_node(p, is_block ? PN_JNODE_SET_BLOCK : PN_JNODE_SET, at);
    if (!node) return NULL;
    node->u.set.target = target;
    if (!is_block)
        return pn_jparser_advance(p) && (node->u.set.value = pn_jparse_tuple(p, true)) ? node : NULL;
    node->u.set.filter = pn_jparse_filters(p, NULL, false);
    return parse_block_to(p, &node->u.set.body, "endset") ? node : NULL;
}

static bool parse_signature(pn_jparser *p, pn_jmacro_def *def) {
    if (!pn_jparser_expect(p, PN_JTOKEN_LPAREN, "'('")) return false;
    while (p->current.kind != PN_JTOKEN_RPAREN) {
        if (def->params.n && !pn_jparser_expect(p, PN_JTOKEN_COMMA, "',' or ')'")) return false;
        pn_jnode *param = pn_jparser_node(p, PN_JNODE_NAME, p->current.at);
        if (!param) return false;
        param->u.name = p->current.text;
        if (!pn_jparser_expect(p, PN_JTOKEN_NAME, "the name of a parameter")) return false;
        if (pn_jparser_skip(p, PN_JTOKEN_ASSIGN)) {
            if (!pn_jparser_push(p, &def->defaults, pn_jparse_expression(p))) return false;
        } else if (def->defaults.n) {
            return pn_jparser_expected(p, "'=': a parameter follows one that has a default") != NULL;
        }
        if (!pn_jparser_push(p, &def->params, param)) return false;
    }
    return pn_jparser_advance(p);
}

/* The body of a macro or call block: a function of its own, out of reach of the loops around, which takes
   varargs, kwargs and caller only when it names them. */
static bool parse_macro_body(pn_jparser *p, pn_jmacro_def *def, const char *end) {
    bool outer_varargs = p->uses_varargs, outer_kwargs = p->uses_kwargs, outer_caller = p->uses_caller;
    int outer_loops = p->loop_depth;
    p->uses_varargs = p->uses_kwargs = p->uses_caller = false;
    p->loop_depth = 0;
    bool ok = parse_block_to(p, &def->body, end);
    def->uses_varargs = p->uses_varargs;
    def->uses_kwargs = p->uses_kwargs;
    def->uses_caller = p->uses_caller;
    for (size_t i = 0; i < def->params.n; i++) { /* declared ones are plain parameters */
        pn_str name = def->params.items[i]->u.name;
        if (pn_str_equal(name, PN_STR("varargs"))) def->uses_varargs = false;
        if (pn_str_equal(name, PN_STR("kwargs"))) def->uses_kwargs = false;
        if (pn_str_equal(name, PN_STR("caller"))) def->uses_caller = false;
    }
    p->uses_varargs = p->uses_varargs || outer_varargs;
    p->uses_kwargs = p->uses_kwargs || outer_kwargs;
    p->uses_caller = p->uses_caller || outer_caller;
    p->loop_depth = outer_loops;
    return ok;
}

static pn_jnode *parse_macro(pn_jparser *p, size_t at) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_MACRO, at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    pn_jmacro_def *def = &node->u.macro.def;
    def->name = p->current.text;
    if (!pn_jparser_expect(p, PN_JTOKEN_NAME, "the name of a macro") || !parse_signature(p, def)) return NULL;
    return parse_macro_body(p, def, "endmacro") ? node : NULL;
}

static pn_jnode *parse_call_block(pn_jparser *p, size_t at) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_CALL_BLOCK, at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    pn_jmacro_def *def = &node->u.macro.def;
    def->name = PN_STR("caller");
    if (p->current.kind == PN_JTOKEN_LPAREN && !parse_signature(p, def)) return NULL;
    size_t call_at = p->current.at;
    if (!(node->u.macro.call = pn_jparse_expression(p))) return NULL;
    if (node->u.macro.call->kind != PN_JNODE_CALL)
        return pn_jparser_fail(p, PN_ERR_FORMAT, call_at, "expected the call of a macro");
    return parse_macro_body(p, def, "endcall") ? node : NULL;
}

static pn_jnode *parse_filter_block(pn_jparser *p, size_t at) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_FILTER_BLOCK, at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    if (!(node->u.block.filter = pn_jparse_filters(p, NULL, true))) return NULL;
    return parse_block_to(p, &node->u.block.body, "endfilter") ? node : NULL;
}

static pn_jnode *parse_with(pn_jparser *p, size_t at) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_WITH, at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    while (p->current.kind != PN_JTOKEN_BLOCK_END) {
        if (node->u.block.targets.n && !pn_jparser_expect(p, PN_JTOKEN_COMMA, "',' or '%}'")) return NULL;
        if (!pn_jparser_push(p, &node->u.block.targets, pn_jparse_target(p, false)) ||
            !pn_jparser_expect(p, PN_JTOKEN_ASSIGN, "'='") ||
            !pn_jparser_push(p, &node->u.block.values, pn_jparse_expression(p)))
            return NULL;
    }
    return parse_block_to(p, &node->u.block.body, "endwith") ? node : NULL;
}

/* transformers' own tag: marks what the assistant wrote, for training; renders its body. */
static pn_jnode *parse_generation(pn_jparser *p, size_t at) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_GENERATION, at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    int outer_loops = p->loop_depth;
    p->loop_depth = 0; /* its body is a function in Jinja2 */
    bool ok = parse_block_to(p, &node->u.block.body, "endgeneration");
    p->loop_depth = outer_loops;
    return ok ? node : NULL;
}

static pn_jnode *parse_loop_control(pn_jparser *p, size_t at) {
    bool is_break = pn_jparser_at_name(p, "break");
    if (p->loop_depth == 0)
        return pn_jparser_fail(p, PN_ERR_FORMAT, at, "break or continue outside of a loop");
    pn_jnode *node = pn_jparser_node(p, is_break ? PN_JNODE_BREAK : PN_JNODE_CONTINUE, at);
    return node && pn_jparser_advance(p) ? node : NULL;
}

static pn_jnode *parse_print(pn_jparser *p, size_t at) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_OUTPUT, at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    return (node->u.operand = pn_jparse_expression(p)) ? node : NULL;
}

static const struct {
    const char *name;
    pn_jnode *(*parse)(pn_jparser *p, size_t at);
} statements[] = {
    {"if", parse_if},
    {"for", parse_for},
    {"set", parse_set},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"print", parse_print},
    {"generation", parse_generation},
    {"break", parse_loop_control},
    {"continue", parse_loop_control},
};

static pn_jnode *parse_statement(pn_jparser *p, const char *const *ends) {
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (pn_jparser_at_name(p, statements[i].name)) return statements[i].parse(p, p->current.at);
    char wanted[100] = "the name of a statement";
    for (size_t n = 0; ends && *ends; ends++) {
        int added = snprintf(wanted + n, sizeof wanted - n, "%s'%s'", n ? " or " : "a statement, ", *ends);
        n += added > 0 ? (size_t)added : 0;
    }
    return pn_jparser_expected(p, wanted);
}

static pn_jnode *parse_output(pn_jparser *p) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_OUTPUT, p->current.at);
    if (!node || !pn_jparser_advance(p) || !(node->u.operand = pn_jparse_tuple(p, true))) return NULL;
    return pn_jparser_expect(p, PN_JTOKEN_VARIABLE_END, "'}}'") ? node : NULL;
}

static pn_jnode *parse_data(pn_jparser *p) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_DATA, p->current.at);
    if (!node) return NULL;
    node->u.data = pn_jstr_make(p->current.text.data, p->current.text.len, true);
    return pn_jparser_advance(p) ? node : NULL;
}

/* Statements up to the end of the template (ends NULL) or to one of ends. */
static bool parse_body(pn_jparser *p, pn_jnodes *body, const char *const *ends) {
    while (p->status == PN_OK && p->current.kind != PN_JTOKEN_END) {
        pn_jnode *node;
        if (p->current.kind == PN_JTOKEN_DATA) {
            node = parse_data(p);
        } else if (p->current.kind == PN_JTOKEN_VARIABLE_BEGIN) {
            node = parse_output(p);
        } else {
            if (!pn_jparser_advance(p)) return false;
            if (at_end_tag(p, ends)) return true;
            node = parse_statement(p, ends);
            if (node && !pn_jparser_expect(p, PN_JTOKEN_BLOCK_END, "'%}'")) return false;
        }
        if (!pn_jparser_push(p, body, node)) return false;
    }
    if (ends && p->status == PN_OK) {
        char wanted[64];
        const char *last = ends[0];
        while (*ends)
            last = *ends++;
        snprintf(wanted, sizeof wanted, "'{%% %s %%}'", last);
        pn_jparser_expected(p, wanted);
    }
    return p->status == PN_OK;
}

pn_status pn_jinja_parse(pn_str source, pn_arena *arena, pn_jnodes *out, pn_error *err) {
    pn_jparser parser = {.arena = arena, .err = err};
    pn_jlexer_init(&parser.lexer, source, arena, err);
    pn_jnodes body = {0};
    parser.status = pn_jlexer_next(&parser.lexer, &parser.next);
    if (pn_jparser_advance(&parser)) parse_body(&parser, &body, NULL);
    if (parser.status == PN_OK) *out = body;
    return parser.status;
}
