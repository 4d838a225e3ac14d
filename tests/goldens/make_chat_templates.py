#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes chat_templates.json: conversations as published chat templates write them.

usage: make_chat_templates.py        (needs jinja2)

Each template is rendered with jinja2 in the settings of transformers' apply_chat_template
(trim_blocks, lstrip_blocks) with add_generation_prompt. Templates of the list UNKNOWN differ from
known ones in what they write, or are not supported; they must not be taken for known ones.
"""
import json
import pathlib

import jinja2
import jinja2.sandbox

USER = [{"role": "user", "content": "Hello, how are you?"}]
TURNS = USER + [{"role": "assistant", "content": "I'm doing great."},
                {"role": "user", "content": "  Show \"{{ it }}\"\n{% to %} me\u00a0\n"}]
SYSTEM = [{"role": "system", "content": " You are a pirate. "}]
CONVERSATIONS = [USER, TURNS, SYSTEM + USER, SYSTEM + TURNS]

CHATML_TURN = ("{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
               "{% endfor %}")
CHATML_ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
CHATML_SYSTEM = ("{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
                 "SYSTEM<|im_end|>\n' }}{% endif %}")
LLAMA3_LOOP = ("{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
               "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] "
               "| trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content "
               "%}{% endif %}{{ content }}{% endfor %}")
LLAMA3_ASK = "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
ALTERNATES = ("{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("
              "'Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}")
GEMMA = ("{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not "
         "supported') }}{% endif %}{% for message in messages %}" + ALTERNATES +
         "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = "
         "message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + "
         "'<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}"
         "{% endif %}")
GEMMA3 = r"""{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>
' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""
MISTRAL = ("{{ bos_token }}{% for message in messages %}" + ALTERNATES + "{% if message['role'] == 'user' "
           "%}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' "
           "%}{{ message['content'] + eos_token END}}{% else %}{{ raise_exception('Only user and "
           "assistant roles are supported!') }}{% endif %}{% endfor %}")
MISTRAL_SYSTEM = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, roles must alternate') }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {%- if loop.first and system_message is defined %}
            {{- " [INST] " + system_message + "\\n\\n" + message["content"] + " [/INST]" }}
        {%- else %}
            {{- " [INST] " + message["content"] + " [/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"] + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported") }}
    {%- endif %}
{%- endfor %}
"""
ZEPHYR = ("{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
          "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + "
          "message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ "
          "'<|assistant|>\n'  + message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and "
          "add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}")

KNOWN = [
    ("chatml", "{% for message in messages %}" + CHATML_TURN + CHATML_ASK),
    ("chatml", "{% for message in messages %}" + CHATML_SYSTEM.replace(
        "SYSTEM", "You are a helpful AI assistant named SmolLM, trained by Hugging Face") + CHATML_TURN +
     CHATML_ASK),
    ("chatml", "{% for message in messages %}" + CHATML_SYSTEM.replace(
        "SYSTEM", "You are a helpful assistant.") + CHATML_TURN + CHATML_ASK),
    ("chatml", "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}"
     "{% endif %}{% for message in messages %}" + CHATML_TURN + CHATML_ASK),
    # with escapes, comments, double quotes and members written with a dot, over several lines
    ("chatml", "{#- ChatML -#}\n{%- for message in messages %}\n    {{- \"<|im_start|>\" + message.role + "
     "\"\\n\" + message.content + \"<|im_end|>\\n\" }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n"
     "    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n"),
    ("llama3", LLAMA3_LOOP + "{% if add_generation_prompt %}" + LLAMA3_ASK + "{% endif %}"),
    ("llama3", LLAMA3_LOOP + LLAMA3_ASK),
    ("llama3", "{{- bos_token }}\n{%- for message in messages %}\n    {{- '<|start_header_id|>' + "
     "message['role'] + '<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>'}}\n{%- endfor %}\n"
     "{%- if add_generation_prompt %}\n    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n'}}\n"
     "{%- endif %}\n"),
    ("gemma", GEMMA),
    ("gemma", GEMMA3),
    ("gemma", GEMMA3.replace(r"'\n\n'", r"'\n'")),
    ("mistral", MISTRAL.replace("END", "+ ' ' ")),
    ("mistral", MISTRAL.replace(" END", "")),
    ("mistral", MISTRAL_SYSTEM),
    ("mistral", MISTRAL_SYSTEM.replace("{%- endfor", "{% endfor")),
    ("zephyr", ZEPHYR),
    ("zephyr", ZEPHYR.replace("}\n{", "}{")),
]
UNKNOWN = [
    "",
    "{{ messages }}",
    "{% for message in messages %}",
    "{% for message in messages %}{{ message['content'] }}{% endfor %}",
    KNOWN[0][1].replace("<|im_end|>", "<|end|>"),
    KNOWN[0][1].replace("message['content']", "message['content'] | trim"),
    KNOWN[0][1].replace("'<|im_end|>' + '\n'", "'<|im_end|>'"),
    KNOWN[0][1] + " ",
    KNOWN[0][1].replace("{% endfor %}", " {% endfor %}"),
    KNOWN[1][1].replace("'system' %}", "'system' and tools %}"),
    KNOWN[1][1].replace("<|im_end|>\n' }}", "<|im_end|>\n' + date }}"),
    "{% if tools %}{{ tools }}{% endif %}" + KNOWN[0][1],
    KNOWN[0][1].replace("message['role'] + '\n'", "message['role'] + '\n' if true else ''"),
    KNOWN[5][1].replace(" | trim", ""),
    KNOWN[5][1].replace("bos_token + content", "content"),
    GEMMA.replace("'model'", "'assistant'"),
    GEMMA.replace(" | trim", ""),
    GEMMA3.replace("if loop.first", "if loop.last"),
    KNOWN[11][1].replace("' [/INST]'", "'[/INST]'"),
    MISTRAL_SYSTEM.replace("{{- bos_token", "{{ bos_token"),
    ZEPHYR.replace("{{ '<|assistant|>' }}", "{{ '<|assistant|>\n' }}"),
]


def render(environment, template, messages):
    """The text, or None where the template raises an exception."""
    try:
        return environment.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token="<s>", eos_token="</s>")
    except ValueError:
        return None


def main():
    def raise_exception(message):
        raise ValueError(message)
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    known = [{"name": name, "template": template,
              "texts": [render(environment, template, c) for c in CONVERSATIONS]}
             for name, template in KNOWN]
    texts = {"jinja2": jinja2.__version__, "conversations": CONVERSATIONS, "known": known,
             "unknown": UNKNOWN}
    path = pathlib.Path(__file__).with_name("chat_templates.json")
    path.write_text(json.dumps(texts, indent=1, ensure_ascii=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
