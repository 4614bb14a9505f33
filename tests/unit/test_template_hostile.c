/* SPDX-License-Identifier: Apache-2.0 */
/* Templates and messages that mean harm: bounds on nesting, steps, memory and output; any bytes; every
   allocation that fails. */
#include "support/check.h"

#include "base/mem.h"
#include "support/template_render.h"

#include <stdio.h>
#include <stdlib.h>

static const pn_template_limits no_limits;

/* ---- nesting ---- */

static char *repeat(const char *unit, size_t n, const char *middle, const char *after) {
    size_t unit_len = strlen(unit), middle_len = strlen(middle), after_len = strlen(after);
    char *text = malloc(n * (unit_len + after_len) + middle_len + 1), *to = text;
    if (!text) abort();
    for (size_t i = 0; i < n; i++, to += unit_len)
        memcpy(to, unit, unit_len);
    memcpy(to, middle, middle_len);
    to += middle_len;
    for (size_t i = 0; i < n; i++, to += after_len)
        memcpy(to, after, after_len);
    *to = '\0';
    return text;
}

static void nesting_is_bounded(void **state) {
    (void)state;
    static const struct {
        const char *begin, *unit, *middle, *after;
        size_t n;
        pn_status status;
    } cases[] = {
        {"{{ ", "(", "1", ")", 150, PN_OK},
        {"{{ ", "(", "1", ")", 100000, PN_ERR_LIMIT},
        {"{{ ", "[", "", "]", 100000, PN_ERR_LIMIT},
        {"{{ ", "{1:", "1", "}", 100000, PN_ERR_LIMIT},
        {"{{ ", "-", "1", "", 100000, PN_ERR_LIMIT},
        {"{{ ", "not ", "1", "", 100000, PN_ERR_LIMIT},
        {"{{ ", "f(", "1", ")", 100000, PN_ERR_LIMIT},
        {"{{ ", "a[", "1", "]", 100000, PN_ERR_LIMIT},
        {"{{ ", "1 if 1 else ", "1", "", 100000, PN_ERR_LIMIT},
        {"{{ ", "1 + ", "1", "", 400, PN_OK},
        {"{{ ", "1 + ", "1", "", 100000, PN_ERR_LIMIT},
        {"{{ 1", " | string", "", "", 100000, PN_ERR_LIMIT},
        {"{{ 1", " is eq", " 1", "", 100000, PN_ERR_FORMAT},
        {"{{ ", "1 ~ ", "1", "", 100000, PN_OK},
        {"{{ ", "1 < ", "1", "", 100000, PN_OK},
        {"{{ ", "'a' ", "'b'", "", 100000, PN_OK},
        {"", "{% if 1 %}", "", "{% endif %}", 150, PN_OK},
        {"", "{% if 1 %}", "", "{% endif %}", 100000, PN_ERR_LIMIT},
        {"{% if 0 %}", "{% elif 0 %}", "{% endif %}", "", 20000, PN_OK},
        {"", "{% macro m() %}", "", "{% endmacro %}", 1000, PN_ERR_LIMIT},
        {"{% for ", "(", "x", ")", 100000, PN_ERR_LIMIT},
        {"", "{{ '{{' }}{# {{ #}", "", "", 10000, PN_OK},
        {"", "{{", "", "", 100000, PN_ERR_LIMIT},
        {"", "{%", "", "", 100000, PN_ERR_FORMAT},
        {"", "{#", "", "", 100000, PN_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *core = repeat(cases[i].unit, cases[i].n, cases[i].middle, cases[i].after);
        bool is_output = strncmp(cases[i].begin, "{{", 2) == 0;
        char *source = malloc(strlen(core) + 100);
        if (!source) abort();
        sprintf(source, "%s%s%s", cases[i].begin, core, is_output ? " }}" : "");
        pn_rendering r = {0};
        pn_error err = {0};
        pn_status status = render_json(source, strlen(source), "{}", NULL, no_limits, &r, &err);
        if (status != cases[i].status) fail_msg("%zu times %s: %s", cases[i].n, cases[i].unit, err.message);
        pn_rendering_free(&r);
        free(source);
        free(core);
    }
}

static void a_source_past_the_bound_is_refused(void **state) {
    (void)state;
    size_t len = (1u << 20) + 1;
    char *source = malloc(len);
    if (!source) abort();
    memset(source, 'x', len);
    pn_template *t;
    pn_error err;
    assert_int_equal(pn_template_parse(source, len, &t, &err), PN_ERR_LIMIT);
    assert_int_equal(pn_template_parse(source, 200000, &t, &err), PN_OK);
    pn_template_free(t);
    free(source);
}

/* ---- steps, memory, output ---- */

static const struct {
    const char *source;
    pn_status status;
} heavy[] = {
    {"{{ range(10**9) | list }}", PN_ERR_LIMIT},
    {"{{ 'a' * 10**9 }}", PN_ERR_LIMIT},
    {"{{ [1] * 10**9 }}", PN_ERR_LIMIT},
    {"{{ (1,) * 9223372036854775807 }}", PN_ERR_LIMIT},
    {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", PN_ERR_LIMIT},
    {"{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}", PN_ERR_LIMIT},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", PN_ERR_LIMIT},
    {"{% macro a() %}{% if 1 %}{{ b() | trim }}{% endif %}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro "
     "%}{{ a() }}",
     PN_ERR_LIMIT},
    {"{% macro m() %}{{ caller() }}{% call m() %}{% endcall %}{% endmacro %}{% call m() %}{% endcall %}",
     PN_ERR_LIMIT},
    {"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", PN_ERR_LIMIT},
    {"{% set ns = namespace(x=[]) %}{% for i in range(3000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
     PN_ERR_LIMIT},
    {"{% set ns = namespace(x=[], y=[]) %}{% for i in range(3000) %}{% set ns.x = [ns.x] %}{% set ns.y = "
     "[ns.y] %}"
     "{% endfor %}{{ ns.x == ns.y }}",
     PN_ERR_LIMIT},
    {"{% set ns = namespace(x=[]) %}{% for i in range(3000) %}{% set ns.x = {1: ns.x} %}{% endfor %}{{ ns.x "
     "| tojson }}",
     PN_ERR_LIMIT},
    {"{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", PN_ERR_LIMIT},
    {"{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
     PN_ERR_LIMIT},
    {"{{ 10**30 }}", PN_ERR_LIMIT},
    {"{{ 9223372036854775807 + 1 }}", PN_ERR_LIMIT},
    {"{{ -9223372036854775807 - 2 }}", PN_ERR_LIMIT},
    {"{{ (-9223372036854775807 - 1) // -1 }}", PN_ERR_LIMIT},
    {"{{ (-9223372036854775807 - 1) % -1 }}", PN_OK},
    {"{{ -(-9223372036854775807 - 1) }}", PN_ERR_LIMIT},
    {"{{ (-9223372036854775807 - 1) | abs }}", PN_ERR_LIMIT},
    {"{{ 9223372036854775807 | round(-18) }}", PN_OK},
    {"{{ -9223372036854775807 | round(-1) }}", PN_ERR_LIMIT},
    {"{{ '9223372036854775808' | int }}", PN_ERR_LIMIT},
    {"{{ 1e300 | int }}", PN_ERR_LIMIT},
    {"{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)[::-1] | list }}", PN_OK},
    {"{{ range(9223372036854775807)[::-9223372036854775807] }}", PN_ERR_LIMIT},
    {"{{ 'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] }}", PN_OK},
    {"{{ 'abc'[-9223372036854775807:9223372036854775807:9223372036854775807] }}", PN_OK},
    {"{{ [1, 2].index(2, -9223372036854775807, 9223372036854775807) }}", PN_OK},
    {"{{ 'abc'.find('c', -9223372036854775807, 9223372036854775807) }}", PN_OK},
    {"{{ '%1000000000d' % 1 }}", PN_ERR_LIMIT},
    {"{{ '%.300f' % 1e308 }}", PN_OK},
    {"{{ '{:>1000000000}'.format(1) }}", PN_ERR_LIMIT},
    {"{{ 'x'.center(10**10) }}", PN_ERR_LIMIT},
    {"{{ 'x' | center(10**18) }}", PN_ERR_LIMIT},
    {"{{ 'x'.zfill(10**18) }}", PN_ERR_LIMIT},
    {"{{ 'a' | indent(10**9) }}", PN_ERR_LIMIT},
    {"{{ [1] | tojson(indent=10**9) }}", PN_ERR_LIMIT},
    {"{{ [1] | batch(10**9, 0) | list }}", PN_ERR_LIMIT},
    {"{{ [1] | slice(10**9) | list }}", PN_ERR_LIMIT},
    {"{{ ('a' * 1000000).replace('', 'b' * 1000) }}", PN_ERR_LIMIT},
    {"{{ ('a' * 1000000).rfind('a' * 500000 ~ 'b') }}", PN_ERR_LIMIT},
    {"{{ ('a' * 1000000).strip('b' * 1000000) }}", PN_ERR_LIMIT},
    {"{{ range(30000) | unique | list | length }}", PN_ERR_LIMIT},
    {"{% set s = 'a' * 100000 %}{% for i in range(100000) %}{{ s[i] }}{% endfor %}", PN_ERR_LIMIT},
    {"{{ strftime_now('%1000000000d') }}", PN_ERR_TEMPLATE},
    {"{% for i in range(100000) %}{{ dict(a=1, b=2, c=3) }}{% endfor %}", PN_OK},
    {"{{ range(100000) | map('string') | join | length }}", PN_OK},
};

static void heavy_work_is_bounded(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof heavy / sizeof heavy[0]; i++) {
        pn_rendering r = {0};
        pn_error err = {0};
        uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
        pn_status status =
            render_json(heavy[i].source, strlen(heavy[i].source), "{}", NULL, no_limits, &r, &err);
        if (status != heavy[i].status) fail_msg("%s: %s", heavy[i].source, err.message);
        pn_rendering_free(&r);
        assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), held);
    }
}

static void limits_can_be_set(void **state) {
    (void)state;
    static const char source[] = "{% for i in range(50) %}ab{% endfor %}";
    pn_rendering r;
    pn_error err;
    pn_template_limits exact = {.max_output_bytes = 100}, small = {.max_output_bytes = 99};
    exact.max_output_bytes = 20000; /* also the room for values */
    assert_int_equal(render_json(source, sizeof source - 1, "{}", NULL, exact, &r, &err), PN_OK);
    assert_int_equal(r.text.len, 100);
    pn_rendering_free(&r);
    assert_int_equal(render_json(source, sizeof source - 1, "{}", NULL, small, &r, &err), PN_ERR_LIMIT);
    pn_template_limits few = {.max_steps = 50}, enough = {.max_steps = 500};
    assert_int_equal(render_json(source, sizeof source - 1, "{}", NULL, few, &r, &err), PN_ERR_LIMIT);
    assert_int_equal(render_json(source, sizeof source - 1, "{}", NULL, enough, &r, &err), PN_OK);
    pn_rendering_free(&r);
}

static void deep_messages_are_bounded(void **state) {
    (void)state;
    json_t *deep = json_array();
    for (int i = 0; i < 5000; i++) {
        json_t *outer = json_array();
        json_array_append_new(outer, deep);
        deep = outer;
    }
    json_t *variables = json_object();
    json_object_set_new(variables, "messages", deep);
    pn_template *t;
    pn_rendering r;
    pn_error err;
    assert_int_equal(pn_template_parse("x", 1, &t, &err), PN_OK);
    pn_template_input input = {.variables = variables};
    assert_int_equal(pn_template_render(t, &input, &r, &err), PN_ERR_LIMIT);
    pn_template_free(t);
    /* Taken apart level by level: jansson's own free would recurse. */
    while (deep) {
        json_t *inner = json_incref(json_array_get(deep, 0));
        if (json_object_size(variables))
            json_object_clear(variables);
        else
            json_decref(deep);
        deep = inner;
    }
    json_decref(variables);
}

/* ---- any bytes ---- */

static void bytes_that_are_not_utf8_pass_through(void **state) {
    (void)state;
    static const char source[] = "\xFF\xC3{{ '\x80\xE4\xB8' }}{{ '\xFE' | upper }}{{ '\xE4\xB8\xAD\xFF'[1] "
                                 "}}{{ '\x80\x80' | length }}\0";
    static const char expected[] = "\xFF\xC3\x80\xE4\xB8\xFE\xFF"
                                   "2\0";
    pn_rendering r;
    pn_error err;
    assert_int_equal(render_json(source, sizeof source - 1, "{}", NULL, no_limits, &r, &err), PN_OK);
    assert_int_equal(r.text.len, sizeof expected - 1);
    assert_memory_equal(r.text.data, expected, sizeof expected);
    pn_rendering_free(&r);
}

/* Names, parameters and keyword arguments by the ten thousands cost steps, not minutes. */
static void many_names_are_bounded(void **state) {
    (void)state;
    static const struct {
        const char *begin, *before, *after, *end; /* a number stands between before and after */
    } cases[] = {{"", "{% set a", " = 1 %}", "{{ a1 }}"},
                 {"{% macro m(", "a", ", ", "z) %}{% endmacro %}{{ m(z=1) }}"},
                 {"{{ dict(", "a", "=1, ", "z=1) }}"},
                 {"{% macro m() %}{{ kwargs }}{% endmacro %}{{ m(", "a", "=1, ", "z=1) }}"},
                 {"{% set ns = namespace() %}", "{% set ns.a", " = 1 %}", "{{ ns.a1 }}"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pn_buf source;
        pn_rendering r = {0};
        pn_error err = {0};
        pn_buf_init(&source, 1u << 20);
        pn_buf_append_str(&source, cases[i].begin);
        for (size_t n = 0; n < 30000; n++)
            pn_buf_append_fmt(&source, "%s%zu%s", cases[i].before, n, cases[i].after);
        assert_int_equal(pn_buf_append_str(&source, cases[i].end), PN_OK);
        pn_status status = render_json(source.data, source.len, "{}", NULL, no_limits, &r, &err);
        if (status != PN_ERR_LIMIT) fail_msg("%s: %s", cases[i].before, err.message);
        pn_buf_done(&source);
    }
}

/* What walks over a long text, or compares two that differ at the end, costs steps by their length. */
static void long_texts_cost_steps(void **state) {
    (void)state;
    static const char *const walks[] = {
        "w.strip()",
        "w.lstrip()",
        "w.rstrip()",
        "w | trim",
        "w | int",
        "w | float",
        "x.ljust(1)",
        "x.center(1)",
        "x.zfill(1)",
        "x | center(1)",
        "x | indent",
        "x | truncate(9)",
        "'%s' | format(x)",
        "'%5s' % x",
        "'{}'.format(x)",
        "x.format()",
        "x % {}",
        "y < z",
        "y == z",
        "[y] == [z]",
        "y is sameas(z)",
        "x is lower",
        "x | wordcount",
        "x.isalnum()",
        "[1] | selectattr(x) | list",
        "y in [z]",
        "{z: 1}[y]",
        "ns | attr(y)",
        "x.removeprefix(x)",
        "x.removesuffix(x)",
        "x.startswith((y,))",
        "x.endswith((y, z))",
        "x.rfind('b' ~ x[1:])",
        "[{z: 1}] | map(attribute=y) | list",
    };
    for (size_t i = 0; i < sizeof walks / sizeof walks[0]; i++) {
        char source[400];
        int len = snprintf(source, sizeof source,
                           "{%% set x = 'a' * 300000 %%}{%% set w = ' ' * 300000 %%}{%% set y = x ~ 'y' %%}"
                           "{%% set z = x ~ 'z' %%}{%% set ns = namespace(**{z: 1}) %%}{%% for i in "
                           "range(100) %%}{%% set r = %s %%}{%% endfor %%}",
                           walks[i]);
        pn_template_limits limits = {.max_steps = 500000};
        pn_rendering r = {0};
        pn_error err = {0};
        pn_status status = render_json(source, (size_t)len, "{}", NULL, limits, &r, &err);
        if (status != PN_ERR_LIMIT || !strstr(err.message, "steps"))
            fail_msg("%s: %s", walks[i], err.message);
    }
}

static void a_name_is_bounded(void **state) {
    (void)state;
    for (size_t n = 1000; n <= 1001; n++) {
        char *name = repeat("a", n, "", ""), source[1100];
        int len = snprintf(source, sizeof source, "{%% set %s = 1 %%}", name);
        pn_template *t = NULL;
        pn_error err;
        assert_int_equal(pn_template_parse(source, (size_t)len, &t, &err), n == 1000 ? PN_OK : PN_ERR_LIMIT);
        pn_template_free(t);
        free(name);
    }
}

/* Every prefix of every template ends in a rendering or an error. */
static void cut_templates(void **state) {
    (void)state;
    static const char source[] =
        "{%- macro m(a, b=1, *c) -%}{{ a | replace('x', \"y\\u4e2d\") }}{%- endmacro -%}{# c -#}\n"
        "{% for k, v in d.items() if v is not none recursive %}{{ loop.index }}{% else %}{% raw %}{{ }}{% "
        "endraw %}"
        "{% endfor %}{% set ns.x, y = [1, {'a': (2,)}][0:1:-1], 1.5e-3 %}{% call(x) m(*l, **d) %}{% endcall "
        "%}"
        "{% with a = 0x1f, b = not 1 %}{% filter upper | trim %}{% endfilter %}{% endwith %}{% generation %}"
        "{{ 1 if 2 else 3 ~ -4 ** 5 // 6 }}{% endgeneration %}{% set z %}{% break %}{% endset %}";
    for (size_t len = 0; len < sizeof source; len++) {
        pn_rendering r = {0};
        pn_error err = {0};
        pn_status status = render_json(source, len, "{\"d\":{},\"l\":[]}", NULL, no_limits, &r, &err);
        if (status != PN_OK) assert_true(err.message[0] && err.code == status);
        pn_rendering_free(&r);
    }
}

/* ---- allocations ---- */

static const char everything[] =
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, q=4) }}"
    "{% set ns = namespace(n=0) %}{% for k, v in d.items() if v recursive %}{% set ns.n = ns.n + 1 %}{{ "
    "loop.length }}"
    "{{ k ~ v }}{{ loop.cycle(1, 2) }}{{ loop.changed(v) }}{% endfor %}{% set s %}x{{ l | join(', ') | upper "
    "}}{% endset %}"
    "{{ s[::-1] }}{{ s.split('X') }}{{ l | map('string') | sort(reverse=true) | list }}{{ d | "
    "tojson(indent=2) }}"
    "{{ d | dictsort }}{{ l | groupby(0) }}{{ l | batch(2, 0) | list }}{{ '%s' | format('a') }}{{ "
    "'{}'.format(1) }}"
    "{{ strftime_now('%Y') }}{{ range(4)[::2] }}{{ (1, 2) + (3,) }}{{ [1] * 3 }}{{ {'a': 1} }}{{ dict(a=1) }}"
    "{% filter indent | trim %}a\n{{ bos }}{% endfilter %}{% call m(1) %}{% endcall %}{{ l[0] }}{{ nothing }}"
    "{% with a = 1 %}{{ a }}{% endwith %}{{ l | unique | list }}{{ s | title }}{{ s | urlencode }}{{ "
    "'a\\x41' 'b' }}";

/* Parses and renders while the nth allocation fails; false when there were fewer. */
static bool fails_cleanly(uint64_t nth, const json_t *variables, const json_t *trusted) {
    uint64_t held = pn_mem_bytes(PN_MEM_OTHER);
    pn_template *t = NULL;
    pn_rendering r = {0};
    pn_error err = {0};
    pn_template_input input = {.variables = variables, .trusted = trusted, .now = 1};
    pn_mem_fail_at(nth);
    pn_status status = pn_template_parse(everything, sizeof everything - 1, &t, &err);
    if (status == PN_OK) status = pn_template_render(t, &input, &r, &err);
    bool failed = pn_mem_fail_at(0) >= nth;
    assert_int_equal(status, failed ? PN_ERR_MEMORY : PN_OK);
    if (failed) assert_int_equal(err.code, PN_ERR_MEMORY);
    pn_rendering_free(&r);
    pn_template_free(t);
    assert_int_equal(pn_mem_bytes(PN_MEM_OTHER), held);
    return failed;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    json_t *variables =
        json_pack("{s:{s:i,s:s,s:n},s:[s,s,s]}", "d", "a", 1, "b", "two", "c", "l", "q", "r", "q");
    json_t *trusted = json_pack("{s:s}", "bos", "<s>");
    uint64_t nth = 1;
    while (fails_cleanly(nth, variables, trusted))
        nth++;
    assert_true(nth > 10);
    json_decref(variables);
    json_decref(trusted);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_is_bounded),        cmocka_unit_test(a_source_past_the_bound_is_refused),
        cmocka_unit_test(heavy_work_is_bounded),     cmocka_unit_test(limits_can_be_set),
        cmocka_unit_test(deep_messages_are_bounded), cmocka_unit_test(bytes_that_are_not_utf8_pass_through),
        cmocka_unit_test(many_names_are_bounded),    cmocka_unit_test(long_texts_cost_steps),
        cmocka_unit_test(a_name_is_bounded),         cmocka_unit_test(cut_templates),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
