"""However long an answer is, each of its pieces is looked at once: eight times the pieces are eight times the work.

The work is counted in characters, not in seconds: those that came, and those that were copied by making other texts of
what had come.
"""

import pytest

from blazar.proxy import grammar
from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects.openai_whole import Whole
from blazar.proxy.json import loads
from tests.support.wire import anthropic_events, call, chunk, dialects, ndjson, responses_events

FEW = 200
SIZE = 8


class Counted(str):
    """A text that notes in `copied` how many characters are copied to make others of it, which count too."""

    copied: list[int]

    def _made(self, text):
        self.copied.append(len(text))
        return told(text, self.copied)

    def __add__(self, other):
        return self._made(str(self) + str(other))

    def __radd__(self, other):
        return self._made(str(other) + str(self))

    def __getitem__(self, place):
        return self._made(str(self)[place])

    def lstrip(self, *marks):
        return self._made(str(self).lstrip(*marks))

    def strip(self, *marks):
        return self._made(str(self).strip(*marks))

    def __str__(self):
        return "".join((self, ""))


def told(text, copied):
    made = Counted(text)
    made.copied = copied
    return made


def pieces(count, copied):
    """A JSON text in so many pieces."""
    return [told(text, copied) for text in ['{"a":  "', *["x" * SIZE] * (count - 2), '"' + " " * (SIZE - 2) + "}"]]


def calling(words):
    return [chunk(tool_calls=[call(0, text, *(("i", "f") if place == 0 else ()))]) for place, text in enumerate(words)]


def saying(words):
    return [chunk(text) for text in words]


def saying_late(words):
    """As many blanks come first, of which nobody knows what follows them."""
    return saying([*(told(" " * SIZE, text.copied) for text in words), *words])


def thinking(words):
    return [chunk(reasoning_content=text) for text in words]


def assembled(chunks, stops=()):
    assembler = Assembler(stops)
    for item in chunks:
        assembler.feed(item)
    answer = assembler.finish()
    return answer.text or answer.thinking or answer.tool_calls[0].arguments


def gathered(chunks):
    whole = Whole()
    for item in chunks:
        whole.feed(item)
    message = whole.value()["choices"][0]["message"]
    calls = message.get("tool_calls")
    return calls[0]["function"]["arguments"] if calls else message["content"] or message["reasoning_content"]


def gathered_text(chunks):
    whole = Whole()
    for item in chunks:
        whole.feed({"choices": [{"index": 0, "text": item["choices"][0]["delta"]["content"]}]})
    return whole.value()["choices"][0]["text"]


def translated(dialect, operation, body, chunks):
    translator = dialects()[dialect].translator(dialects()[dialect].parse(operation, body, {}, "r"))
    return b"".join([*map(translator.feed, chunks), translator.finish()])


def ollama(chunks):
    lines = ndjson(translated("ollama", "chat", b'{"model":"m","messages":[{"role":"user"}]}', chunks))
    return "".join(line["message"]["content"] or line["message"].get("thinking", "") for line in lines)


def anthropic(chunks):
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'
    deltas = [event.get("delta", {}) for event in anthropic_events(translated("anthropic", "messages", body, chunks))]
    return "".join(delta.get(name, "") for delta in deltas for name in ("text", "thinking", "partial_json"))


def responses(chunks):
    events = responses_events(translated("responses", "create", b'{"model":"m","input":"x"}', chunks))
    return "".join(event["delta"] for event in events if "delta" in event)


def strict(chunks):
    """Under `decode_policy = "strict"`: envelopes are kept back to their end."""
    events = list(grammar.Envelopes().events(iter([*chunks, chunk(reason="stop")])))
    return "".join(choice["delta"].get("content", "") for event in events for choice in event["choices"])


def enveloped(chunks):
    return strict([chunk("<tool_call>"), *chunks])


LANES = {
    "assembled, calls": (assembled, calling), "assembled, text": (assembled, saying),
    "assembled, thoughts": (assembled, thinking),
    "assembled, with stops": (lambda chunks: assembled(chunks, ["xy", "}!"]), saying),
    "gathered, calls": (gathered, calling), "gathered, text": (gathered, saying),
    "gathered, thoughts": (gathered, thinking), "gathered, a completion": (gathered_text, saying),
    "ollama, text": (ollama, saying), "ollama, thoughts": (ollama, thinking),
    "anthropic, calls": (anthropic, calling), "anthropic, text": (anthropic, saying),
    "anthropic, thoughts": (anthropic, thinking),
    "responses, calls": (responses, calling), "responses, text": (responses, saying),
    "responses, thoughts": (responses, thinking),
    "strict, text": (strict, saying), "strict, an envelope": (enveloped, saying),
    "strict, after blanks": (strict, saying_late),
}


def work(lane, count):
    """Characters that came and were copied, for an answer in so many pieces."""
    read, made_of = LANES[lane]
    copied = []
    words = pieces(count, copied)
    assert read(made_of(words)).endswith("".join(words))
    return count * SIZE + sum(copied)


@pytest.mark.parametrize("lane", LANES)
def test_eight_times_the_pieces_are_eight_times_the_work(lane):
    few = work(lane, FEW)
    assert few < 40 * FEW * SIZE
    assert work(lane, 8 * FEW) < 9 * few


def test_an_envelope_is_parsed_once_however_many_marks_its_strings_hold(monkeypatch):
    parsed = []
    monkeypatch.setattr(grammar, "loads", lambda text: parsed.append(text) or loads(text))
    inner = '{"name": "f", "arguments": {"a": "%s"}}' % ("</tool_call>" * FEW)
    calls, rest = grammar.calls_in(f"<tool_call>{inner}</tool_call>" * 3)
    assert len(calls) == 3 and not rest and parsed == [inner] * 3
