"""Simple Go templates as Jinja; others are left alone. The engine itself renders what was made of them."""

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from blazar.store.go_template import filled, to_jinja
from blazar.supervisor import processes
from tests.support.real_engine import engine_path
from tests.support.tiny_gguf import tiny_gguf
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]

CHATML = """{{ if .System }}<|im_start|>system
{{ .System }}<|im_end|>
{{ end }}{{ if .Prompt }}<|im_start|>user
{{ .Prompt }}<|im_end|>
{{ end }}<|im_start|>assistant
{{ .Response }}<|im_end|>
"""
LOOP = """{{- if .System }}<sys>{{ .System }}</sys>{{ end }}
{{- range .Messages }}
{{- if eq .Role "user" }}[U]{{ .Content }}
{{- else if eq .Role "assistant" }}[A]{{ .Content }}{{ end }}
{{- end }}[A]{{ .Response }}[E]"""
TURNS = [{"role": "system", "content": "S"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
         {"role": "user", "content": "it's\n\"c\""}]


@pytest.fixture
def rendered(tmp_path):
    """Renders a Go template by the real engine; a server for each template."""
    running = []

    def render(template, *conversations):
        program = engine_path()
        argv = [program] if program else [sys.executable, "-P", "-m", "blazar.engines.embedded"]
        file = tmp_path / f"{len(running)}.jinja"
        file.write_text(to_jinja(template))
        server = subprocess.Popen([*argv, "-m", str(tiny_gguf(tmp_path / "tiny.gguf")), "--port", "0", "-c", "512",
                                   "--jinja", "--chat-template-file", str(file)], start_new_session=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  env={**os.environ, "PYTHONPATH": str(ROOT)})
        running.append(server)
        port = until(lambda: processes.owned_listeners(server.pid))[0].port
        until(lambda: ask(port, "/health", None))
        return [ask(port, "/apply-template", {"messages": turns})["prompt"] for turns in conversations]

    yield render
    for server in running:
        server.kill()
        server.wait()


def ask(port, path, body):
    """The JSON of an answer; None while the engine still loads."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=10) as answer:
            return json.loads(answer.read())
    except OSError:
        assert body is None, "the engine refused the template"
        return None


def test_an_exchange(rendered):
    assert rendered(CHATML, TURNS) == [
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\nit's\n\"c\"<|im_end|>\n<|im_start|>assistant\n"]


def test_an_exchange_without_a_place_for_the_answer(rendered):
    two = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert rendered("### Instruction:\n{{ .Prompt }}\n\n### Response:\n", TURNS[1:], two) == [
        "### Instruction:\na\n\n### Response:\nb### Instruction:\nit's\n\"c\"\n\n### Response:\n",
        "### Instruction:\na\n\nb\n\n### Response:\n"]


def test_a_loop(rendered):
    assert rendered(LOOP, TURNS) == ["<sys>S</sys>[U]a[A]b[U]it's\n\"c\"[A]"]


def test_conditions(rendered):
    template = "{{ if and .System (not .Prompt) }}x{{ else if or .System .Prompt }}y{{ else }}z{{ end }}{{/* c */}}|"
    assert rendered(template, TURNS[:1], TURNS[1:2], TURNS[:2]) == ["x|", "y|", "y|"]


def test_text_cannot_become_a_program(rendered):
    assert rendered("{% set x %}' + 1 + '{{ .Prompt }}\\{#", TURNS[1:2]) == ["{% set x %}' + 1 + 'a\\{#"]


@pytest.mark.parametrize("template", [
    "{{ range $i, $_ := .Messages }}{{ $last := eq (len (slice $.Messages $i)) 1 }}{{ end }}", "{{ .Tools }}",
    "{{ if .System }}", "{{ end }}", "{{ else }}", "{{ if }}x{{ end }}", "{{ if .A }}x{{ end }}", "{{ json .Prompt }}",
    "{{ template \"x\" }}", "{{ if .System }}{{ range .Messages }}{{ end }}{{ end }}", "{{ .Prompt",
    "{{ .Prompt | x }}",
    "{{ if .System }}a{{ else }}b{{ else }}c{{ end }}", "{{ if " + "(" * 100 + ".System" + ")" * 100 + " }}{{ end }}",
    "{{ if .System }}" * 100 + "{{ end }}" * 100, "{{ .Prompt }}" + "x" * 70_000, "{{ eq .Prompt }}",
    "{{" + " " * 32_000, "{{ if " + "." * 32_000 + " }}", "{{ range " + " " * 32_000 + " }}", "{{ " * 10_000,
    "{{ .Prompt" + " ." * 16_000 + " }}",
    "{{ .System }}{{ range .Messages }}{{ .Prompt }}{{ end }}"])
def test_what_is_not_simple_is_left(template):
    assert to_jinja(template) is None


@pytest.mark.parametrize(("template", "system", "text"), [
    ("{{ .System }}|{{ .Prompt }}|{{ .Response }}|after", "s", "s|p|"),
    ("{{- if and .System .Prompt }}both{{ else if .Prompt }}one{{ else }}none{{ end -}}  !", "", "one!"),
    ("{{ if not .System }}no{{ end }}{{ if eq .Prompt \"p\" }}yes{{ end }}{{ if ne .Prompt \"p\" }}never{{ end }}", "",
     "noyes"),
    ("{{ or .System \"default\" }} {{ and .Prompt \"x\" }}", "", "default x"),
    ("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}<assistant>", "s", "<system>s<user>p<assistant>"),
    ("{{ range $i, $m := .Messages }}{{ if eq .Role \"user\" }}{{ .Content }}{{ end }}{{ end }}", "s", "p"),
    ("{{/* nothing */}}\"quoted\\n\" {{ \"a\\tb\" }}", "", "\"quoted\\n\" a\tb"),
])
def test_filled_in_for_one_question(template, system, text):
    assert filled(template, system, "p") == text


@pytest.mark.parametrize("template", [
    "{{ .Tools }}", "{{ json .Prompt }}", "{{ if .System }}", "{% if x %}", "{{ .Role }}", "x" * (1 << 16),
    "{{ range .Messages }}{{ .Prompt }}{{ end }}", "{{ " + "(" * 99 + " }}"])
def test_what_is_not_simple_is_not_filled_in(template):
    assert filled(template, "s", "p") is None
