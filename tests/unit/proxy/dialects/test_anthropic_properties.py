"""No block of a conversation is lost on the way to the engine, and none of an answer on the way back.

`hypothesis` looks for the conversation that loses one.
"""

import base64
import json

import pytest

pytest.importorskip("hypothesis")

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.wire import anthropic_blocks, anthropic_events, buffered, call, chunk, dialects, sse, streamed

FAST = settings(max_examples=150, deadline=None, derandomize=True)
WORDS = st.text("ab \n\u00e9\U0001f600", min_size=1, max_size=4)


def marked(kinds):
    """Blocks of these kinds, each with a text that no other has, which is known once all of them are numbered."""
    return st.lists(st.sampled_from(kinds), max_size=4)


TURNS = st.lists(st.one_of(
    st.tuples(st.just("assistant"), marked(["text", "thinking", "tool_use", "server_tool_use"])),
    st.tuples(st.just("user"), marked([
        "text", "document", "search_result", "tool_result", "picture result", "image", "container_upload"])),
    st.tuples(st.just("system"), marked(["text"]))), min_size=1, max_size=8)


def picture(mark):
    """The base64 of a picture that no other is like."""
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + mark.encode()).decode()


def image(mark):
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": picture(mark)}}


def block(kind, mark, number):
    if kind == "image":
        return image(mark)
    if kind == "picture result":
        return {"type": "tool_result", "tool_use_id": f"r{number}", "content": [
            {"type": "text", "text": mark}, image(mark)]}
    return {"type": kind, **{
        "text": {"text": mark}, "thinking": {"thinking": mark, "signature": "s"},
        "tool_use": {"id": f"t{number}", "name": mark, "input": {"x": mark}},
        "tool_result": {"tool_use_id": f"r{number}", "content": [{"type": "text", "text": mark}]},
        "document": {"source": {"type": "text", "data": mark}},
        "search_result": {"title": mark, "source": "s", "content": [{"type": "text", "text": mark}]},
    }.get(kind, {"data": mark})}


@FAST
@given(TURNS)
def test_every_block_of_a_conversation_reaches_the_engine(turns):
    messages, marks, pictures = [], [], []
    for role, kinds in turns:
        content = []
        for kind in kinds:
            number = len(marks) + len(pictures)
            mark = f"mark{number}."
            content.append(block(kind, mark, number))
            marks += [mark] if kind != "image" else []
            pictures += [picture(mark)] if kind in ("image", "picture result") else []
        messages.append({"role": role, "content": content})
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": messages}).encode()
    upstream = json.loads(dialects()["anthropic"].parse("messages", body, {}, "r").upstream_body)["messages"]
    told = json.dumps(upstream)
    assert [mark for mark in [*marks, *pictures] if mark not in told] == []
    answered = [turn["tool_call_id"] for turn in upstream if turn["role"] == "tool"]
    called = [made["id"] for turn in upstream for made in turn.get("tool_calls", ())]
    assert len(answered) == len(set(answered)), "each result stands once"
    assert [id for id in called[:-1] if id in answered] == [id for id in answered if id in called[:-1]], "in order"
    for turn, following in itertools.pairwise(upstream):
        assert not turn.get("tool_calls") or following["role"] in ("tool", "system"), "nothing between call and result"


def begun(index):
    return chunk(tool_calls=[call(index, "", f"c{index}", f"f{index}")]), "call", index


ANSWERS = st.lists(st.one_of(
    WORDS.map(lambda words: (chunk(words), "text", words)),
    WORDS.map(lambda words: (chunk(reasoning_content=words), "thinking", words)),
    st.integers(0, 2).map(begun)), max_size=10)


@FAST
@given(ANSWERS, st.integers(0, 9), st.sampled_from(["stop", "length", "tool_calls"]))
def test_every_piece_of_an_answer_reaches_the_client(pieces, seed, reason):
    body = b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}'
    exchange = dialects()["anthropic"].parse("messages", body, {}, "r")
    data = sse([*(piece for piece, _, _ in pieces), chunk(reason=reason)])
    whole = json.loads(buffered(exchange, data))["content"]
    assert anthropic_blocks(anthropic_events(streamed(exchange, data, seed))) == whole
    for kind in ("text", "thinking"):
        assert "".join(found[kind] for found in whole if found["type"] == kind) == "".join(
            words for _, told, words in pieces if told == kind)
    assert [found["id"] for found in whole if found["type"] == "tool_use"] == list(dict.fromkeys(
        f"c{index}" for _, told, index in pieces if told == "call"))
