#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes chat_templates.json: conversations as chat templates write them, and what jinja2 gives for
small templates that use one part of the language each.

usage: make_chat_templates.py        (needs jinja2)

The templates are ours, built as those of published models are; tests/peers/check_chat_templates.py
compares with published ones. Settings and variables are those of transformers' apply_chat_template
with add_generation_prompt: trim_blocks, lstrip_blocks, no tools. A text of null is one that the
template refuses with raise_exception, or an error.
"""
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

USER = [{"role": "user", "content": "Hello, how are you?"}]
TURNS = USER + [{"role": "assistant", "content": "I'm doing great."},
                {"role": "user", "content": "  Show \"{{ it }}\"\n{% to %} me\u00a0\n"}]
SYSTEM = [{"role": "system", "content": " You are a pirate. "}]
CONVERSATIONS = [USER, TURNS, SYSTEM + USER, SYSTEM + TURNS]

# name that mh_model_chat_template gives, template
FAMILIES = [
    ("chatml", "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"),
    # a system message of its own, tools, and a condition that leaves the system message out of the loop
    ("chatml", r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- for tool in tools %}
        {{- "\n" }}{{- tool | tojson(indent=2) }}
    {%- endfor %}
    {{- "<|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nBe helpful.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for m in messages %}
    {%- if (m.role == "user") or (m.role == "system" and not loop.first) or (m.role == "assistant" and not m.tool_calls) %}
        {{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}
    {%- elif m.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
"""),
    # the last question, found from the end, and what was thought before it
    ("chatml", r"""{%- set ns = namespace(waiting=true, last=messages|length - 1) %}
{%- for m in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.waiting and m.role == "user" and m.content is string and not(m.content.startswith('<t>') and m.content.endswith('</t>')) %}
        {%- set ns.waiting = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set content = m.content %}
    {%- if '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + m.role + '\n' + content + ('!' if loop.index0 > ns.last or (loop.last and not m.thought) else '') }}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}
"""),
    ("llama3", "{% set all = messages %}{% for m in all %}{% set content = '<|start_header_id|>' + m['role'] + "
     "'<|end_header_id|>\n\n'+ m['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = "
     "bos_token + content %}{% endif %}{{ content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"),
    # a system header that is always written, with a date, and messages replaced by their rest
    ("llama3", r"""{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not in_user_message is defined %}
    {%- set in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message goes into the header. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system = "" %}
{%- endif %}

{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}
    {{- "Tools\n" }}
{%- endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code') | join(", ") + "\n\n"}}
{%- endif %}
{{- "Date: " + date_string + "\n\n" }}
{%- if in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first = messages[0]['content']|trim %}
    {%- else %}
        {{- raise_exception("There's no first message!") }}
{%- endif %}
{%- endif %}
{{- system }}
{{- "<|eot_id|>" }}
{%- for m in messages %}
    {%- if not (m.role == 'ipython' or m.role == 'tool' or 'tool_calls' in m) %}
        {{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\n\n'+ m['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in m %}
        {%- if not m.tool_calls|length == 1 %}
            {{- raise_exception("Too many") }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
"""),
    ("gemma", "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system role') }}{% endif %}"
     "{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('They "
     "alternate') }}{% endif %}{% if (m['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = "
     "m['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + m['content'] | trim + '<end_of_turn>\n' }}"
     "{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"),
    # the system message begins the first of the user; contents may be lists
    ("gemma", r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for m in rest -%}
    {{ '<start_of_turn>' + ("model" if m.role == "assistant" else m.role) + '\n' + (prefix if loop.first else "") }}
    {%- if m['content'] is string -%}
        {{ m['content'] | trim }}
    {%- elif m['content'] is iterable -%}
        {%- for item in m['content'] -%}
            {{ item['text'] | trim }}
        {%- endfor -%}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""),
    ("mistral", "{{ bos_token }}{% for m in messages %}{% if (m['role'] == 'user') != (loop.index0 % 2 == 0) %}"
     "{{ raise_exception('They alternate') }}{% endif %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + "
     "' [/INST]' }}{% elif m['role'] == 'assistant' %}{{ m['content'] + eos_token + ' ' }}{% else %}"
     "{{ raise_exception('Only user and assistant') }}{% endif %}{% endfor %}"),
    # messages of the user found by a filter; the alternation counted in a namespace; the system message in the
    # last message of the user
    ("mistral", r"""{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set rest = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set users = rest | selectattr("role", "equalto", "user") | list %}

{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for m in rest %}
    {%- if not (m.role == "tool" or m.role == "tool_results" or (m.tool_calls is defined and m.tool_calls is not none)) %}
        {%- if (m["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("They alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for m in rest %}
    {%- if m["role"] == "user" %}
        {%- if tools is not none and (m == users[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
        {%- endif %}
        {%- if loop.last and system is defined %}
            {{- "[INST] " + system + "\n\n" + m["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + m["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif m["role"] == "assistant" %}
        {{- " " + m["content"]|trim + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant") }}
    {%- endif %}
{%- endfor %}
"""),
    ("zephyr", "{% for m in messages %}\n{% if m['role'] == 'user' %}\n{{ '<|user|>\n' + m['content'] + eos_token }}\n"
     "{% elif m['role'] == 'system' %}\n{{ '<|system|>\n' + m['content'] + eos_token }}\n{% elif m['role'] == "
     "'assistant' %}\n{{ '<|assistant|>\n'  + m['content'] + eos_token }}\n{% endif %}\n{% if loop.last and "
     "add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"),
    ("other", "{% macro turn(name, text, end='\\n') %}{{ name ~ ': ' ~ text }}{% if end %}{{ end }}{% endif %}"
     "{% endmacro %}{% for m in messages %}{{ turn(m.role | capitalize, m.content | trim) }}{% endfor %}"
     "{{ turn('Assistant', '', end='') }}"),
]

# One part of the language each, with the same variables.
LANGUAGE = [
    "", "a\n", "a\n\n", "a\r\nb\r", "  a  ", "{# c #}a{#- c -#}  b",
    # whitespace
    "a\n  {% if true %}\n  b\n  {% endif %}\nc", "a\n  {%+ if true %}\n  b\n  {%+ endif %}\nc",
    "a {% if true +%}\nb{% endif %}", "a {%- if true -%} b {%- endif -%} c", "a  {{- 1 -}}  b", "a\n {{ 1 }}\n b",
    "{%- for m in messages -%}\n  {{ m.role }}\n{%- endfor -%}\n x", "{% if true %}   {% endif %}|",
    "  {# a #}\n  b", "a {# b #}\nc", "x\n\n  {%- if 1 %} y{% endif %}",
    # literals and operators
    "{{ 'a' 'b' }}{{ \"c\\\"d\" }}{{ 'e\\'f' }}{{ '\\x41\\u00e9\\t\\q' }}", "{{ 1 + 2 * 3 - 4 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }}",
    "{{ 1 ~ 'a' ~ true ~ none ~ x }}", "{{ 'a' + 'b' ~ 'c' }}", "{{ 1 < 2 }} {{ 'a' <= 'a' }} {{ 'b' > 'a' }} {{ 2 >= 3 }}",
    "{{ 'ell' in 'hello' }} {{ 'x' not in ['x', 1] }} {{ 'role' in messages[0] }} {{ 'a' in x }}",
    "{{ 1 == true }} {{ 'a' == none }} {{ x == y }} {{ [1, 'a'] == [1, 'a'] }} {{ (1, 2) == (1, 3) }}",
    "{{ not 1 == 2 }} {{ not not 'a' }} {{ 1 and 'b' }} {{ '' or 'c' }} {{ x or 'd' }} {{ none and x.y }}",
    "{{ 'a' if false }}|{{ 'a' if x else 'b' if y else 'c' }}", "{{ [1, 2, 3][-1] }}{{ {'a': 'b'}['a'] }}{{ {'a': {'b': 1}}.a.b }}",
    "{{ 'h\u00e9llo'[1] }}{{ 'h\u00e9llo'[1:3] }}{{ 'h\u00e9llo'[:-1] }}{{ 'h\u00e9llo'|length }}", "{{ [1,2,3,4][1:3] | join('-') }}{{ [1,2,3,4][::-2] | join }}",
    "{{ [1,2,3][5:] | length }}{{ [1,2,3][-9:2] | join(',') }}{{ [1,2,3][9] is defined }}", "{{ ([1] + [2]) | length }}", "{{ () | length }}{{ (1,) | length }}",
    # statements
    "{% for a in [] %}b{% else %}c{% endfor %}", "{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }},{% endfor %}",
    "{% for a in [1,2,3,4] if a is even %}{{ loop.index }}{{ a }}{{ loop.length }}{{ loop.last }} {% endfor %}",
    "{% for a in 'abc' %}{{ loop.revindex }}{{ loop.revindex0 }}{{ a }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}",
    "{% for a in {'x': 1, 'y': 2} %}{{ a }}{% endfor %}{% for a in x %}z{% endfor %}",
    "{% for a in range(5) %}{% if a == 1 %}{% continue %}{% elif a == 3 %}{% break %}{% endif %}{{ a }}{% endfor %}",
    "{% for a in range(2) %}{% for b in range(2, 8, 3) %}{{ loop.index }}{{ b }}{% endfor %}{{ loop.index }};{% endfor %}",
    "{% set a = 1 %}{% for i in range(2) %}{{ a }}{% set a = a + 5 %}{{ a }} {% endfor %}{{ a }}",
    "{% if true %}{% set a = 3 %}{% endif %}{{ a }}", "{% set a %}x{{ 1 }}\n{% endset %}[{{ a }}]{{ a is string }}",
    "{% set n = namespace(a=1, b='c') %}{% for i in range(3) %}{% set n.a = n.a * 2 %}{% endfor %}{{ n.a }}{{ n.b }}",
    "{% macro f(a, b=2) %}{{ a }}{{ b }}{{ g }}{% endmacro %}{% set g = 'g' %}{{ f(1) }}{{ f(b=3, a=4) }}{{ f(5, 6) }}{{ f() }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% generation %}a{% endgeneration %}",
    # filters, methods, functions, tests
    "[{{ '  a\u00a0b \n' | trim }}] [{{ 'xxaxx' | trim('x') }}]", "{{ 'aXb' | upper }}{{ 'AxB' | lower }}{{ 'hELLO wORLD' | capitalize }}{{ 'hi there'.title() }}",
    "{{ 'a-b-c' | replace('-', '+') }}{{ 'aaa'.replace('aa', 'b') }}", "{{ x | default('d') }}{{ '' | default('e') }}{{ '' | default('f', true) }}{{ none | d('g', boolean=true) }}",
    "{{ messages | map(attribute='role') | join(' ') }}", "{{ ['a ', ' b'] | map('trim') | list | join('|') }}",
    "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}{{ messages | rejectattr('role', 'in', ['user']) | list | length }}",
    "{{ [1, 0, 2] | select | join }}{{ [1, none] | reject('none') | join }}{{ none | select | list | length }}",
    "{{ [3, 1] | first }}{{ [3, 1] | last }}{{ [3, 1] | reverse | join }}{{ [] | first is defined }}", "{{ {'a': [1, true, none], 'b': 'q\"\\n\u00e9\\\\'} | tojson }}",
    "{{ 12 | string | length }}{{ true | int }}{{ 'a' | safe }}{{ [1,2] | count }}", "{% for k, v in {'a': 1} | items %}{{ k }}{{ v }}{% endfor %}",
    "[{{ ' a '.strip() }}] [{{ 'xax'.lstrip('x') }}] [{{ 'xyaxy'.rstrip('yx') }}]", "{{ 'a, b, c'.split(', ') | join('|') }}{{ 'a b c'.split(' ', 1)[1] }}{{ 'abc'.split('x')[0] }}",
    "{{ 'abc'.startswith('ab') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'abc'.startswith('b') }}", "{{ {'a': 1}.get('a') }}{{ {'a': 1}.get('b') }}{{ {'a': 1}.get('b', 2) }}{{ {'a': 1}.keys() | list | join }}{{ {'a': 1}.values() | join }}",
    "{{ x is defined }}{{ tools is none }}{{ tools is defined }}{{ 'a' is string }}{{ 1 is number }}{{ [] is iterable }}{{ {} is mapping }}{{ 'a' is mapping }}{{ [] is sequence }}",
    "{{ 4 is divisibleby 2 }}{{ 3 is odd }}{{ true is boolean }}{{ 1 is true }}{{ 1 is integer }}{{ 1 is eq 1 }}{{ 1 is ne 1 }}{{ 2 is in [1, 2] }}{{ range is callable }}",
    "{{ strftime_now is defined }}{{ strftime_now('%%') }}", "{{ dict(a=1, b=2).b }}",
    # errors
    "{{ x.y.z }}", "{{ x + 'a' }}", "{{ 1 + 'a' }}", "{{ none | length }}", "{{ raise_exception('no') }}", "{% for a in 1 %}{% endfor %}", "{{ x() }}", "{{ 1 // 0 }}",
    "{{ 1 < 'a' }}", "{% set x.y = 1 %}", "{{ 'a'[::0] }}", "{% for a, b in [[1]] %}{% endfor %}",
]

# Not Jinja, or a part of it that is not supported: refused with a message that has this in it.
REFUSED = [
    ("{{ messages }}", "a list"), ("{% for m in messages %}", "without its endfor"), ("{% endif %}", "a block that it ends"),
    ("{{ 1", "does not end"), ("{{ 'a }}", "does not end"), ("{# a", "does not end"), ("{{ 1.5 }}", "fraction"), ("{{ }}", "a value"),
    ("{{ a b }}", "the tag's end"), ("{% include 'x' %}", "include"), ("{% if 1 %}a{% endfor %}", "endfor"), ("{{ 1 < 2 < 3 }}", "one comparison"),
    ("{{ 'a' | groupby('b') }}", "groupby"), ("{{ 'a' is upper }}", "upper"), ("{{ 'a'.zfill(3) }}", "zfill"), ("{{ cycler(1) }}", "cycler"),
    ("{{ '\u00e9' | upper }}", "ASCII"), ("a\nb\n{{ ! }}", "line 3"), ("{% break %}", "outside of loops"), ("{{ $ }}", "0x24"), ("{{ 99999999999999999999 }}", "digits"),
    ("{{ 'a' | tojson(indent=2) }}", "tojson"), ("{{ '\\101' }}", "octal"), ("{{ '\\ud800' }}", "no character"), ("{{ f(a=1, 2) }}", "without a name"),
    ("{{ " + "(" * 99 + "1" + ")" * 99 + " }}", "nested too deeply"), ("{{ " + "1 + " * 99 + "1 }}", "operators"), ("{{ " + "not " * 99 + "1 }}", "operators"),
    ("{% if 1 %}" * 99 + "{% endif %}" * 99, "nested too deeply"), ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "nested too deeply"),
    ("{% for a in range(9999999) %}{% endfor %}", "too many steps"), ("{{ range(99999) | list | tojson | length * 9999999999 }}", "too large"),
    ("{% set n = namespace(a='aaaaaaaa') %}{% for i in range(99) %}{% set n.a = n.a + n.a %}{% endfor %}", "too much memory"),
    ("{% set n = namespace(a=[1]) %}{% for i in range(99) %}{% set n.a = n.a + n.a %}{% endfor %}", "too many steps"),
    ("{% set n = namespace(a=[1]) %}{% for i in range(999) %}{% set n.a = [n.a] %}{% endfor %}{{ n.a | tojson }}", "nested too deeply"),
    ("{% for i in range(99999) %}" + "a" * 999 + "{% endfor %}", "writes too much"),
]


class Generation(jinja2.ext.Extension):
    """{% generation %}, which transformers adds to the language."""
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda format: format.replace("%%", "%")
    environment.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    return environment


def render(environment, template, messages):
    """The text, or None where there is none."""
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token="<s>", eos_token="</s>", tools=None,
            documents=None)
    except (jinja2.exceptions.TemplateError, TypeError, ZeroDivisionError, ValueError):
        return None


def main():
    environment = make_environment()
    known = [{"name": name, "template": template,
              "texts": [render(environment, template, c) for c in CONVERSATIONS]}
             for name, template in FAMILIES + [("other", t) for t in LANGUAGE]]
    texts = {"jinja2": jinja2.__version__, "conversations": CONVERSATIONS, "known": known,
             "refused": [{"template": template, "message": message} for template, message in REFUSED]}
    path = pathlib.Path(__file__).with_name("chat_templates.json")
    path.write_text(json.dumps(texts, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
