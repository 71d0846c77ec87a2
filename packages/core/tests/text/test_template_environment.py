import resource
import time

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from octavo.errors import InvalidRequestError
from octavo.text.chat_template import ChatTemplate, TemplateLimitError
from octavo.text.template_meter import RenderLimits

USER = [{"role": "user", "content": "hi"}]
MESSAGES = [
    {"role": role, "content": text} for role, text in (("system", " be kind\n"), ("user", "a <b> é"), ("assistant", "<think>x</think>y"))
]
LOOP = "{% set ns = namespace(a=['x'], s='x', n=10) %}{% for i in range(90000) %}"
END = "{% endfor %}"
BIG = "{% set s = 'x' * 30000000 %}"

GROWING = {
    "texts added": LOOP + "{% set ns.s = ns.s + ns.s %}" + END,
    "texts joined": LOOP + "{% set ns.s = ns.s ~ ns.s %}" + END,
    "blocks": LOOP + "{% set x %}{{ ns.s }}{{ ns.s }}{% endset %}{% set ns.s = x %}" + END,
    "macros": "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}" + LOOP + "{% set ns.s = m(ns.s) %}" + END,
    "arguments": "{% macro m() %}{{ m(varargs, varargs) }}{% endmacro %}{{ m(1) }}",
    "lists": LOOP + "{% set ns.a = [ns.a, ns.a] %}" + END + "{{ ns.a }}",
    "lists added": LOOP + "{% set ns.a = ns.a + ns.a %}" + END,
    "tuples": LOOP + "{% set ns.a = (ns.a, ns.a) %}" + END + "{{ ns.a == ns.a }}",
    "mappings": LOOP + "{% set ns.a = {'a': ns.a, 'b': ns.a} %}" + END + "{{ ns.a | tojson }}",
    "dict()": LOOP + "{% set ns.a = dict(a=ns.a, b=ns.a) %}" + END + "{{ ns.a | tojson }}",
    "numbers": LOOP + "{% set ns.n = ns.n * ns.n %}" + END,
    "powers": "{{ 10 ** (10 ** 9) }}",
    "text times": "{{ 'a' * 10 ** 12 }}",
    "list times": "{{ [1] * 10 ** 9 }}",
    "join": "{{ (['a'] * 1000000) | join('b' * 100) }}",
    "str.join": "{{ ('b' * 30000000).join(range(9000) | map('string')) }}",
    "replace": "{{ ('a' * 1000000).replace('a', 'b' * 100000) }}",
    "replace filter": "{{ ('a' * 1000000) | replace('a', 'b' * 100000) }}",
    "center": "{{ 'a'.center(10 ** 9) }}",
    "format": "{{ '{:>999999999}'.format(1) }}",
    "format with a width": "{{ '{:{w}}'.format(1, w=10 ** 9) }}",
    "format of many": "{{ ('{0}' * 10000).format('x' * 100000) }}",
    "percent": "{{ '%999999999d' % 1 }}",
    "percent of a value": "{{ '%*d' % (10 ** 9, 1) }}",
    "percent of many": "{{ ('%(a)s' * 10000) % {'a': 'x' * 100000} }}",
    "indent": "{{ 'a\\na' | indent(10 ** 10) }}",
    "json indent": "{{ [1] | tojson(indent=10 ** 9) }}",
    "json of depth": "{% set ns = namespace(a=range(9999) | list) %}{% for i in range(900) %}{% set ns.a = [ns.a] %}{% endfor %}"
    "{{ ns.a | tojson(indent=60) }}",
    "sum of lists": "{{ ([[1]] * 9999) | sum(start=[]) }}",
    "round": "{{ 1 | round(10 ** 9) }}",
    "fromkeys": "{{ {}.fromkeys(range(99999), 'x' * 1000000) }}",
    "pieces": BIG + "{{ s.split() }}",
    "letters": BIG + "{{ s | list }}",
    "copies": BIG + "".join(f"{{% set a{i} = s[{i + 1}:] %}}" for i in range(200)),
    "strftime": "{{ strftime_now('a' * 100000) }}",
}
ENDLESS = {
    "loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "loops that filter": "{% for j in range(99999) %}{% for i in range(99999) if false %}{% endfor %}{% endfor %}",
    "macros": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "comparing": BIG + "{% set t = s ~ '' %}{% for i in range(90000) %}{% if s ~ '' == t %}{% endif %}{% endfor %}",
    "sorting": "{% set x = range(90000) | map('string') | list %}{% for i in range(90000) %}{% set y = x | sort %}{% endfor %}",
    "searching": "{% set s = 'ab' * 15000000 %}{% for i in range(9999) %}{% if 'bb' in s %}{% endif %}{% endfor %}",
    "selecting": "{% set x = range(9000) | map('string') | list %}{{ range(90000) | map('string') | select('in', x) | list | length }}",
}


@pytest.mark.parametrize("source", GROWING.values(), ids=GROWING.keys())
def test_what_would_grow_is_stopped_before_it_has(source: str) -> None:
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.thread_time()
    with pytest.raises(InvalidRequestError, match=r"is stopped on these messages|unsafe"):
        ChatTemplate(source).render(USER)
    assert time.thread_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20, "KiB"


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS.keys())
def test_what_would_not_end_is_stopped_soon(source: str) -> None:
    start = time.thread_time()
    with pytest.raises(TemplateLimitError, match=r"longer than 0\.1 s|characters in all"):
        ChatTemplate(source).render_with(USER, {}, limits=RenderLimits(cpu_seconds=0.1))
    assert time.thread_time() - start < 2


def test_a_second_is_what_a_template_has() -> None:
    with pytest.raises(TemplateLimitError, match="longer than 1 s"):
        ChatTemplate(ENDLESS["loops"]).render(USER)


@pytest.mark.parametrize(
    "source",
    [
        "{{ (1).to_bytes(10 ** 10) }}",
        "{{ 'a'.encode() }}",
        "{{ 'a'.translate({97: 'b'}) }}",
        "{{ lipsum(n=1000000) }}",
        "{{ cycler(1) }}",
        "{{ [1] | batch(10 ** 9, 1) | list }}",
        "{{ messages | pprint }}",
    ],
)
def test_what_no_prompt_needs_is_not_there(source: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"unsafe|undefined|No filter named"):
        ChatTemplate(source).render(USER)


def test_namespaces_that_hold_each_other_show_nothing() -> None:
    loop = "{% for i in range(40) %}{% set n = namespace(a=ns.a, b=ns.a) %}{% set ns.a = n %}{% endfor %}"
    assert ChatTemplate("{% set ns = namespace(a=1) %}" + loop + "{{ ns.a }}").render(USER) == "<Namespace>"


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages[1:] %}{{ loop.index ~ m.role ~ '|' + m['content'] | trim }}{% if not loop.last %}\n{% endif %}{% endfor %}",
        "{% for m in messages if m.role != 'system' %}{{ m.content.split('</think>')[-1].lstrip('y') }}{{ loop.length }}{% endfor %}",
        "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}{{ messages | length }}{{ messages[0].content.strip() }}",
        "{{ messages | map(attribute='role') | join(', ') }}{{ messages | map(attribute='content') | map('upper') | list }}",
        "{{ messages | selectattr('role', 'equalto', 'user') | list }}{{ messages | rejectattr('role', 'in', ['user']) | first }}",
        "{{ '%s-%d' % ('a', 3) }}{{ '{} {b:>4}'.format(1, b='x') }}{{ '{a}'.format_map({'a': 1}) }}{{ '%s' | format('z') }}",
        "{{ 7 % 3 }}{{ 2 ** 10 }}{{ -2 * 3 }}{{ 1 + 1.5 }}{{ [1] + [2] }}{{ 'ab' * 2 }}{{ (1, 2) + (3,) }}{{ 7 // 2 }}{{ 'a' * -1 }}",
        "{% set ns = namespace(x=0) %}{% for m in messages %}{% set ns.x = ns.x + 1 %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(l=[]) %}{% for m in messages %}{% set ns.l = ns.l + [m] %}{% endfor %}{{ ns.l }}",
        "{% macro f(x, y='d') %}[{{ x }}{{ y }}{{ caller() if caller }}]{% endmacro %}{{ f(1) }}{% call f(2, y=3) %}in{% endcall %}",
        "{% set x %}a{{ messages[0].role }}{% endset %}{{ x | upper }}{% filter lower %}ABC{{ x }}{% endfilter %}",
        "{{ {'a': [1, none, true]}.items() | list }}{{ {'b': 1, 'a': 2} | dictsort }}{{ [3, 1] | sort | first }}{{ [1] | unique | list }}",
        "{{ messages[0].content is string }}{{ x is defined }}{{ 3 is odd }}{{ x | default('d') }}{{ x or 'e' }}{{ messages is iterable }}",
        "{{ 'a' in 'abc' }}{{ 1 in [1, 2] }}{{ 'role' in messages[0] }}{{ 1 < 2 <= 2 }}{{ messages[0].role == 'system' and not false }}",
        "{{ 'line\nother' | indent(2) }}{{ 3.14159 | round(2) }}{{ [1, 2] | sum }}{{ 'a b' | title }}{{ '5' | int + 1 }}",
        "{{ 'a,b'.split(',') }}{{ 'x'.join(['a', 'b']) }}{{ 'aXb'.replace('X', '-') }}{{ 'ab'.startswith('a') }}{{ 'a'.center(5) }}",
        "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}={{ v }};{% else %}none{% endfor %}{% for x in [] %}{% else %}none{% endfor %}",
        "{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}",
        "{{ messages[-1]['content'][:3] }}{{ messages[0].get('name', 'nobody') }}{{ messages[0].missing }}{{ dict(a=1)['a'] }}",
    ],
)
def test_everything_else_is_rendered_as_jinja_renders_it(source: str) -> None:
    plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    assert ChatTemplate(source).render(MESSAGES) == plain.render(messages=MESSAGES, add_generation_prompt=True)


def test_long_conversations_are_far_from_the_limits() -> None:
    source = "{% set ns = namespace(p='') %}{% for m in messages %}{% set ns.p = ns.p ~ m.role ~ m.content %}{% endfor %}{{ ns.p }}"
    messages = [{"role": "user", "content": "word " * 100}] * 1000
    assert len(ChatTemplate(source).render(messages)) == 504_000
