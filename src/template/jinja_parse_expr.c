/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions, loosest binding first: condition, or, and, not, comparison, + -, ~, * / // %, **, unary with
   its postfixes, filters and tests, primary. Names of the rules as in Jinja2's parser. */
#include "template/jinja_parse.h"

/* ---- primary ---- */

/* Words that begin or join something and can be no variable. Jinja2 would take most of them for one, and so
   render a Go template's "{{ if .System }}" to nothing; here it is the error it is. */
static bool is_reserved(pn_str name) {
    static const char *const words[] = {"if", "elif", "else", "endif", "for", "endfor",
                                        "in", "not",  "and",  "or",    "is"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (pn_str_equal(name, pn_str_from(words[i]))) return true;
    return false;
}

static bool constant_name(pn_str name, pn_jvalue *out) {
    static const struct {
        const char *name;
        pn_jtype type;
        bool truth;
    } constants[] = {{"true", PN_J_BOOL, true},   {"True", PN_J_BOOL, true}, {"false", PN_J_BOOL, false},
                     {"False", PN_J_BOOL, false}, {"none", PN_J_NONE, 0},    {"None", PN_J_NONE, 0}};
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        if (!pn_str_equal(name, pn_str_from(constants[i].name))) continue;
        *out = constants[i].type == PN_J_BOOL ? pn_jbool(constants[i].truth) : pn_jnone();
        return true;
    }
    return false;
}

static pn_jnode *parse_name(pn_jparser *p) {
    pn_str name = p->current.text;
    size_t at = p->current.at;
    pn_jvalue constant;
    if (is_reserved(name)) return pn_jparser_expected(p, "an expression");
    bool is_constant = constant_name(name, &constant);
    pn_jnode *node = pn_jparser_node(p, is_constant ? PN_JNODE_CONST : PN_JNODE_NAME, at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    if (is_constant)
        node->u.constant = constant;
    else
        node->u.name = name;
    p->uses_varargs = p->uses_varargs || pn_str_equal(name, PN_STR("varargs"));
    p->uses_kwargs = p->uses_kwargs || pn_str_equal(name, PN_STR("kwargs"));
    p->uses_caller = p->uses_caller || pn_str_equal(name, PN_STR("caller"));
    return node;
}

/* One or more string literals side by side, which are one string. */
static pn_jnode *parse_strings(pn_jparser *p) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_CONST, p->current.at);
    if (!node) return NULL;
    const char *text = p->current.text.data;
    char *joined = NULL;
    size_t len = p->current.text.len, cap = 0;
    while (pn_jparser_advance(p) && p->current.kind == PN_JTOKEN_STRING) {
        pn_str more = p->current.text;
        if (!joined || len + more.len > cap) {
            cap = 2 * (len + more.len);
            joined = pn_jparser_alloc(p, cap, 1);
            if (!joined) return NULL;
            if (len) memcpy(joined, text, len);
            text = joined;
        }
        if (more.len) memcpy(joined + len, more.data, more.len);
        len += more.len;
    }
    node->u.constant = pn_jstring(pn_jstr_make(text, len, true));
    return p->status == PN_OK ? node : NULL;
}

static pn_jnode *parse_number(pn_jparser *p) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_CONST, p->current.at);
    if (!node) return NULL;
    bool is_int = p->current.kind == PN_JTOKEN_INT;
    node->u.constant = is_int ? pn_jint(p->current.integer) : pn_jfloat(p->current.real);
    return pn_jparser_advance(p) ? node : NULL;
}

static pn_jnode *parse_list(pn_jparser *p) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_LIST, p->current.at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    while (p->current.kind != PN_JTOKEN_RBRACKET) {
        if (node->u.items.n && !pn_jparser_expect(p, PN_JTOKEN_COMMA, "',' or ']'")) return NULL;
        if (p->current.kind == PN_JTOKEN_RBRACKET) break;
        if (!pn_jparser_push(p, &node->u.items, pn_jparse_expression(p))) return NULL;
    }
    return pn_jparser_advance(p) ? node : NULL;
}

static pn_jnode *parse_dict(pn_jparser *p) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_DICT, p->current.at);
    if (!node || !pn_jparser_advance(p)) return NULL;
    while (p->current.kind != PN_JTOKEN_RBRACE) {
        if (node->u.items.n && !pn_jparser_expect(p, PN_JTOKEN_COMMA, "',' or '}'")) return NULL;
        if (p->current.kind == PN_JTOKEN_RBRACE) break;
        if (!pn_jparser_push(p, &node->u.items, pn_jparse_expression(p)) ||
            !pn_jparser_expect(p, PN_JTOKEN_COLON, "':'") ||
            !pn_jparser_push(p, &node->u.items, pn_jparse_expression(p)))
            return NULL;
    }
    return pn_jparser_advance(p) ? node : NULL;
}

static bool at_tuple_end(const pn_jparser *p) {
    pn_jtoken_kind kind = p->current.kind;
    return kind == PN_JTOKEN_VARIABLE_END || kind == PN_JTOKEN_BLOCK_END || kind == PN_JTOKEN_RPAREN;
}

static pn_jnode *parse_or(pn_jparser *p);

static pn_jnode *parse_tuple(pn_jparser *p, bool with_condition, bool in_parentheses) {
    size_t at = p->current.at;
    pn_jnodes items = {0};
    bool is_tuple = in_parentheses && p->current.kind == PN_JTOKEN_RPAREN;
    while (!at_tuple_end(p)) {
        pn_jnode *item = with_condition ? pn_jparse_expression(p) : parse_or(p);
        if (!pn_jparser_push(p, &items, item)) return NULL;
        if (p->current.kind != PN_JTOKEN_COMMA) break;
        is_tuple = true;
        if (!pn_jparser_advance(p)) return NULL;
    }
    if (!is_tuple) return items.n ? items.items[0] : pn_jparser_expected(p, "an expression");
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_TUPLE, at);
    if (node) node->u.items = items;
    return node;
}

pn_jnode *pn_jparse_tuple(pn_jparser *p, bool with_condition) {
    return parse_tuple(p, with_condition, false);
}

static pn_jnode *parse_parentheses(pn_jparser *p) {
    if (!pn_jparser_advance(p)) return NULL;
    pn_jnode *node = parse_tuple(p, true, true);
    return node && pn_jparser_expect(p, PN_JTOKEN_RPAREN, "')'") ? node : NULL;
}

static pn_jnode *parse_primary(pn_jparser *p) {
    switch (p->current.kind) {
    case PN_JTOKEN_NAME:
        return parse_name(p);
    case PN_JTOKEN_STRING:
        return parse_strings(p);
    case PN_JTOKEN_INT:
    case PN_JTOKEN_FLOAT:
        return parse_number(p);
    case PN_JTOKEN_LPAREN:
        return parse_parentheses(p);
    case PN_JTOKEN_LBRACKET:
        return parse_list(p);
    case PN_JTOKEN_LBRACE:
        return parse_dict(p);
    case PN_JTOKEN_DOT:
        return pn_jparser_expected(p, "an expression (is this a Go template?)");
    default:
        return pn_jparser_expected(p, "an expression");
    }
}

/* ---- postfixes: attributes, subscripts, calls, filters, tests ---- */

static pn_jnode *parse_attribute(pn_jparser *p, pn_jnode *object) {
    size_t at = p->current.at;
    if (!pn_jparser_advance(p)) return NULL;
    if (p->current.kind == PN_JTOKEN_NAME) {
        pn_jnode *node = pn_jparser_node(p, PN_JNODE_ATTRIBUTE, at);
        if (!node) return NULL;
        node->u.attribute.object = object;
        node->u.attribute.name = p->current.text;
        return pn_jparser_advance(p) ? node : NULL;
    }
    if (p->current.kind != PN_JTOKEN_INT) return pn_jparser_expected(p, "a name or a number after '.'");
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_SUBSCRIPT, at);
    if (!node) return NULL;
    node->u.subscript.object = object;
    return (node->u.subscript.index = parse_number(p)) ? node : NULL;
}

/* A part of a slice: NULL in *out when nothing stands there. */
static bool parse_slice_part(pn_jparser *p, pn_jnode **out) {
    pn_jtoken_kind kind = p->current.kind;
    if (kind == PN_JTOKEN_COLON || kind == PN_JTOKEN_RBRACKET) return true;
    return (*out = pn_jparse_expression(p)) != NULL;
}

static pn_jnode *parse_subscript(pn_jparser *p, pn_jnode *object) {
    size_t at = p->current.at;
    if (!pn_jparser_advance(p)) return NULL;
    pn_jnode *begin = NULL;
    if (p->current.kind == PN_JTOKEN_RBRACKET) return pn_jparser_expected(p, "an index");
    if (!parse_slice_part(p, &begin)) return NULL;
    pn_jnode *node =
        pn_jparser_node(p, p->current.kind == PN_JTOKEN_COLON ? PN_JNODE_SLICE : PN_JNODE_SUBSCRIPT, at);
    if (!node) return NULL;
    if (node->kind == PN_JNODE_SUBSCRIPT) {
        node->u.subscript.object = object;
        node->u.subscript.index = begin;
        return pn_jparser_expect(p, PN_JTOKEN_RBRACKET, "']'") ? node : NULL;
    }
    node->u.slice.object = object;
    node->u.slice.begin = begin;
    if (!pn_jparser_advance(p) || !parse_slice_part(p, &node->u.slice.end)) return NULL;
    if (pn_jparser_skip(p, PN_JTOKEN_COLON) && !parse_slice_part(p, &node->u.slice.step)) return NULL;
    return pn_jparser_expect(p, PN_JTOKEN_RBRACKET, "']'") ? node : NULL;
}

static bool parse_keyword(pn_jparser *p, pn_jcall_args *args) {
    size_t n = args->keywords.n;
    pn_str *names = args->keyword_names;
    if ((n & (n - 1)) == 0) { /* at 0 and the powers of two */
        names = pn_jparser_alloc(p, n ? 2 * n : 1, sizeof *names);
        if (!names) return false;
        if (n) memcpy(names, args->keyword_names, n * sizeof *names);
        args->keyword_names = names;
    }
    names[n] = p->current.text;
    return pn_jparser_advance(p) && pn_jparser_advance(p) &&
           pn_jparser_push(p, &args->keywords, pn_jparse_expression(p));
}

static bool parse_argument(pn_jparser *p, pn_jcall_args *args) {
    bool stars = args->star || args->star_star;
    if (p->current.kind == PN_JTOKEN_MUL && !stars)
        return pn_jparser_advance(p) && (args->star = pn_jparse_expression(p));
    if (p->current.kind == PN_JTOKEN_POW && !args->star_star)
        return pn_jparser_advance(p) && (args->star_star = pn_jparse_expression(p));
    if (p->current.kind == PN_JTOKEN_NAME && p->next.kind == PN_JTOKEN_ASSIGN && !args->star_star)
        return parse_keyword(p, args);
    if (stars || args->keywords.n)
        return pn_jparser_expected(p, "a keyword argument after keyword arguments") != NULL;
    return pn_jparser_push(p, &args->positional, pn_jparse_expression(p));
}

static bool parse_call_args(pn_jparser *p, pn_jcall_args *args) {
    if (!pn_jparser_expect(p, PN_JTOKEN_LPAREN, "'('")) return false;
    while (p->current.kind != PN_JTOKEN_RPAREN) {
        if (!parse_argument(p, args)) return false;
        if (p->current.kind == PN_JTOKEN_RPAREN) break;
        if (!pn_jparser_expect(p, PN_JTOKEN_COMMA, "',' or ')'")) return false;
    }
    return pn_jparser_advance(p);
}

static pn_jnode *parse_call(pn_jparser *p, pn_jnode *callee) {
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_CALL, p->current.at);
    if (!node) return NULL;
    node->u.call.subject = callee;
    return parse_call_args(p, &node->u.call.args) ? node : NULL;
}

static pn_jnode *parse_postfix(pn_jparser *p, pn_jnode *node) {
    while (node) {
        if (p->current.kind == PN_JTOKEN_DOT)
            node = parse_attribute(p, node);
        else if (p->current.kind == PN_JTOKEN_LBRACKET)
            node = parse_subscript(p, node);
        else if (p->current.kind == PN_JTOKEN_LPAREN)
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

static bool parse_name_of(pn_jparser *p, const char *what, pn_str *out) {
    *out = p->current.text;
    return pn_jparser_expect(p, PN_JTOKEN_NAME, what);
}

pn_jnode *pn_jparse_filters(pn_jparser *p, pn_jnode *subject, bool start_inline) {
    pn_jnode *node = subject;
    while (start_inline || p->current.kind == PN_JTOKEN_PIPE) {
        if (!start_inline && !pn_jparser_advance(p)) return NULL;
        start_inline = false;
        pn_jnode *filter = pn_jparser_node(p, PN_JNODE_FILTER, p->current.at);
        if (!filter || !parse_name_of(p, "the name of a filter", &filter->u.call.name)) return NULL;
        filter->u.call.subject = node;
        if (p->current.kind == PN_JTOKEN_LPAREN && !parse_call_args(p, &filter->u.call.args)) return NULL;
        node = filter;
    }
    return node;
}

/* Whether a test's one argument follows without parentheses: "is divisibleby 3". */
static bool at_bare_argument(const pn_jparser *p) {
    switch (p->current.kind) {
    case PN_JTOKEN_NAME:
        return !pn_jparser_at_name(p, "else") && !pn_jparser_at_name(p, "or") &&
               !pn_jparser_at_name(p, "and");
    case PN_JTOKEN_STRING:
    case PN_JTOKEN_INT:
    case PN_JTOKEN_FLOAT:
    case PN_JTOKEN_LBRACKET:
    case PN_JTOKEN_LBRACE:
        return true;
    default:
        return false;
    }
}

static pn_jnode *parse_test(pn_jparser *p, pn_jnode *subject) {
    size_t at = p->current.at;
    if (!pn_jparser_advance(p)) return NULL;
    bool negated = pn_jparser_skip_name(p, "not");
    pn_jnode *test = pn_jparser_node(p, PN_JNODE_TEST, at);
    if (!test || !parse_name_of(p, "the name of a test", &test->u.call.name)) return NULL;
    test->u.call.subject = subject;
    if (p->current.kind == PN_JTOKEN_LPAREN) {
        if (!parse_call_args(p, &test->u.call.args)) return NULL;
    } else if (at_bare_argument(p)) {
        pn_jnode *argument = parse_postfix(p, parse_primary(p));
        if (!pn_jparser_push(p, &test->u.call.args.positional, argument)) return NULL;
    }
    if (!negated) return test;
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_NOT, at);
    if (node) node->u.operand = test;
    return node;
}

static pn_jnode *parse_filters_and_tests(pn_jparser *p, pn_jnode *node) {
    while (node) {
        if (p->current.kind == PN_JTOKEN_PIPE)
            node = pn_jparse_filters(p, node, false);
        else if (pn_jparser_at_name(p, "is"))
            node = parse_test(p, node);
        else if (p->current.kind == PN_JTOKEN_LPAREN)
            node = parse_call(p, node);
        else
            break;
    }
    return node;
}

/* ---- operators ---- */

static pn_jnode *parse_unary(pn_jparser *p, bool with_filters);

static pn_jnode *parse_signed(pn_jparser *p) {
    pn_jnode_kind kind = p->current.kind == PN_JTOKEN_SUB ? PN_JNODE_NEGATE : PN_JNODE_PLUS;
    pn_jnode *node = pn_jparser_node(p, kind, p->current.at);
    if (!node || !pn_jparser_advance(p) || !pn_jparser_enter(p)) return NULL;
    node->u.operand = parse_unary(p, false);
    pn_jparser_leave(p);
    return node->u.operand ? node : NULL;
}

/* -a.b|c is (-(a.b))|c. */
static pn_jnode *parse_unary(pn_jparser *p, bool with_filters) {
    bool has_sign = p->current.kind == PN_JTOKEN_SUB || p->current.kind == PN_JTOKEN_ADD;
    pn_jnode *node = parse_postfix(p, has_sign ? parse_signed(p) : parse_primary(p));
    return with_filters ? parse_filters_and_tests(p, node) : node;
}

static pn_jnode *make_binary(pn_jparser *p, pn_jnode_kind kind, size_t at, pn_joperator op, pn_jnode *left,
                             pn_jnode *right) {
    pn_jnode *node = right ? pn_jparser_node(p, kind, at) : NULL;
    if (!node) return NULL;
    node->u.binary.op = op;
    node->u.binary.left = left;
    node->u.binary.right = right;
    return node;
}

/* Power binds to the left too, as in Jinja2. */
static pn_jnode *parse_power(pn_jparser *p) {
    pn_jnode *left = parse_unary(p, true);
    while (left && p->current.kind == PN_JTOKEN_POW) {
        size_t at = p->current.at;
        if (!pn_jparser_advance(p)) return NULL;
        left = make_binary(p, PN_JNODE_BINARY, at, PN_JOP_POW, left, parse_unary(p, true));
    }
    return left;
}

static bool product_operator(pn_jtoken_kind kind, pn_joperator *op) {
    switch (kind) {
    case PN_JTOKEN_MUL:
        *op = PN_JOP_MUL;
        return true;
    case PN_JTOKEN_DIV:
        *op = PN_JOP_DIV;
        return true;
    case PN_JTOKEN_FLOORDIV:
        *op = PN_JOP_FLOORDIV;
        return true;
    case PN_JTOKEN_MOD:
        *op = PN_JOP_MOD;
        return true;
    default:
        return false;
    }
}

static pn_jnode *parse_product(pn_jparser *p) {
    pn_jnode *left = parse_power(p);
    pn_joperator op;
    while (left && product_operator(p->current.kind, &op)) {
        size_t at = p->current.at;
        if (!pn_jparser_advance(p)) return NULL;
        left = make_binary(p, PN_JNODE_BINARY, at, op, left, parse_power(p));
    }
    return left;
}

static pn_jnode *parse_concat(pn_jparser *p) {
    pn_jnode *first = parse_product(p);
    if (!first || p->current.kind != PN_JTOKEN_TILDE) return first;
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_CONCAT, p->current.at);
    if (!node || !pn_jparser_push(p, &node->u.items, first)) return NULL;
    while (p->current.kind == PN_JTOKEN_TILDE)
        if (!pn_jparser_advance(p) || !pn_jparser_push(p, &node->u.items, parse_product(p))) return NULL;
    return node;
}

static pn_jnode *parse_sum(pn_jparser *p) {
    pn_jnode *left = parse_concat(p);
    while (left && (p->current.kind == PN_JTOKEN_ADD || p->current.kind == PN_JTOKEN_SUB)) {
        pn_joperator op = p->current.kind == PN_JTOKEN_ADD ? PN_JOP_ADD : PN_JOP_SUB;
        size_t at = p->current.at;
        if (!pn_jparser_advance(p)) return NULL;
        left = make_binary(p, PN_JNODE_BINARY, at, op, left, parse_concat(p));
    }
    return left;
}

/* Whether a comparison stands here; skips it. */
static bool skip_comparison(pn_jparser *p, pn_joperator *op) {
    static const struct {
        pn_jtoken_kind kind;
        pn_joperator op;
    } comparisons[] = {{PN_JTOKEN_EQ, PN_JOP_EQ}, {PN_JTOKEN_NE, PN_JOP_NE}, {PN_JTOKEN_LT, PN_JOP_LT},
                       {PN_JTOKEN_LE, PN_JOP_LE}, {PN_JTOKEN_GT, PN_JOP_GT}, {PN_JTOKEN_GE, PN_JOP_GE}};
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++) {
        *op = comparisons[i].op;
        if (pn_jparser_skip(p, comparisons[i].kind)) return true;
    }
    bool in_next = p->next.kind == PN_JTOKEN_NAME && pn_str_equal(p->next.text, PN_STR("in"));
    *op = PN_JOP_NOT_IN;
    if (pn_jparser_at_name(p, "not") && in_next) return pn_jparser_advance(p) && pn_jparser_advance(p);
    *op = PN_JOP_IN;
    return pn_jparser_skip_name(p, "in");
}

static pn_jnode *parse_comparison(pn_jparser *p) {
    size_t at = p->current.at;
    pn_jnode *first = parse_sum(p);
    pn_joperator op;
    if (!first || !skip_comparison(p, &op)) return p->status == PN_OK ? first : NULL;
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_COMPARE, at);
    if (!node || !pn_jparser_push(p, &node->u.compare.operands, first)) return NULL;
    size_t n = 0, cap = 0;
    do {
        if (n == cap) {
            cap = cap ? 2 * cap : 1;
            pn_joperator *ops = pn_jparser_alloc(p, cap, sizeof *ops);
            if (!ops) return NULL;
            if (n) memcpy(ops, node->u.compare.ops, n * sizeof *ops);
            node->u.compare.ops = ops;
        }
        node->u.compare.ops[n++] = op;
        if (!pn_jparser_push(p, &node->u.compare.operands, parse_sum(p))) return NULL;
    } while (skip_comparison(p, &op));
    return p->status == PN_OK ? node : NULL;
}

static pn_jnode *parse_not(pn_jparser *p) {
    if (!pn_jparser_at_name(p, "not")) return parse_comparison(p);
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_NOT, p->current.at);
    if (!node || !pn_jparser_advance(p) || !pn_jparser_enter(p)) return NULL;
    node->u.operand = parse_not(p);
    pn_jparser_leave(p);
    return node->u.operand ? node : NULL;
}

static pn_jnode *parse_and(pn_jparser *p) {
    pn_jnode *left = parse_not(p);
    while (left && pn_jparser_at_name(p, "and")) {
        size_t at = p->current.at;
        if (!pn_jparser_advance(p)) return NULL;
        left = make_binary(p, PN_JNODE_AND, at, PN_JOP_ADD, left, parse_not(p));
    }
    return left;
}

static pn_jnode *parse_or(pn_jparser *p) {
    pn_jnode *left = parse_and(p);
    while (left && pn_jparser_at_name(p, "or")) {
        size_t at = p->current.at;
        if (!pn_jparser_advance(p)) return NULL;
        left = make_binary(p, PN_JNODE_OR, at, PN_JOP_ADD, left, parse_and(p));
    }
    return left;
}

static pn_jnode *parse_condition(pn_jparser *p) {
    pn_jnode *yes = parse_or(p);
    while (yes && pn_jparser_at_name(p, "if")) {
        pn_jnode *node = pn_jparser_node(p, PN_JNODE_CONDITION, p->current.at);
        if (!node || !pn_jparser_advance(p)) return NULL;
        node->u.condition.yes = yes;
        if (!(node->u.condition.test = parse_or(p))) return NULL;
        if (pn_jparser_skip_name(p, "else") && !(node->u.condition.no = pn_jparse_expression(p))) return NULL;
        yes = p->status == PN_OK ? node : NULL;
    }
    return yes;
}

pn_jnode *pn_jparse_expression(pn_jparser *p) {
    if (!pn_jparser_enter(p)) return NULL;
    pn_jnode *node = parse_condition(p);
    pn_jparser_leave(p);
    return node;
}

/* ---- targets ---- */

static pn_jnode *parse_target_item(pn_jparser *p, bool with_attribute) {
    if (p->current.kind == PN_JTOKEN_LPAREN) {
        if (!pn_jparser_enter(p) || !pn_jparser_advance(p)) return NULL;
        pn_jnode *inner = pn_jparse_target(p, with_attribute);
        pn_jparser_leave(p);
        return inner && pn_jparser_expect(p, PN_JTOKEN_RPAREN, "')'") ? inner : NULL;
    }
    pn_jvalue constant;
    if (p->current.kind != PN_JTOKEN_NAME || constant_name(p->current.text, &constant))
        return pn_jparser_expected(p, "a name to assign to");
    pn_jnode *name = parse_name(p);
    if (!name || p->current.kind != PN_JTOKEN_DOT) return name;
    if (!with_attribute) return pn_jparser_expected(p, "a plain name to assign to");
    pn_jnode *target = parse_attribute(p, name);
    return target && target->kind != PN_JNODE_ATTRIBUTE ? pn_jparser_expected(p, "a name after '.'") : target;
}

pn_jnode *pn_jparse_target(pn_jparser *p, bool with_attribute) {
    size_t at = p->current.at;
    pn_jnode *first = parse_target_item(p, with_attribute);
    if (!first || p->current.kind != PN_JTOKEN_COMMA) return first;
    pn_jnode *node = pn_jparser_node(p, PN_JNODE_TUPLE, at);
    if (!node || !pn_jparser_push(p, &node->u.items, first)) return NULL;
    while (pn_jparser_skip(p, PN_JTOKEN_COMMA)) {
        if (p->current.kind == PN_JTOKEN_ASSIGN || pn_jparser_at_name(p, "in") || at_tuple_end(p)) break;
        if (!pn_jparser_push(p, &node->u.items, parse_target_item(p, with_attribute))) return NULL;
    }
    return p->status == PN_OK ? node : NULL;
}
