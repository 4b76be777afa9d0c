"""What a request shows its model besides text: pictures, sounds, films, in a chat completion or a completion.

Whether there is anything at all is told by the bytes, without parsing them. What is found is made into the one form in
which the engine neither fetches nor opens anything.
"""

import re
import secrets
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

from blazar.errors import RequestRefused
from blazar.proxy.dialects import images
from blazar.proxy.dialects.fields import refuse
from blazar.proxy.json import dumps

STEP = 1 << 16
"""Bytes of a body that are searched in one go."""
OVERLAP = 32
"""More than the longest of what is searched for."""
_DISGUISED = re.compile(rb"\\u00(?:5[fF]|6[1-9a-fA-F]|7[0-9aA])")
"""A small letter, or an underscore, that was written as an escape: no JSON writer does that."""
_PICTURE, _ADDRESS = b'"image_url"', b'"url"'
"""What stands twice in the part of a picture in form, as its type and as a key; and the other key there, once."""
MOST = 100
"""Pictures, sounds and films in one request."""
LARGEST = 64 << 20
"""Bytes of a sound or a film."""

OFFERED = "offered"
"""In a picture's part: the words that stand for it where the model cannot see. Without it, such a model is refused."""

SENSES = {"image_url": "vision", "input_audio": "audio", "input_video": "vision", "video_url": "vision"}
"""What a model needs for such a part."""
WORDS = {"vision": "pictures", "audio": "sound"}
"""What a sense is for, in a refusal."""
_SOUNDS = (b"ID3", b"fLaC", b"OggS", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b"\xff\xfa")
_MATROSKA = b"\x1a\x45\xdf\xa3"


def may_show(body: bytes, pause: Callable[[], None] = lambda: None) -> bool:
    """Whether a request's body may show something. False is certain; `pause` is called between steps."""
    if len(body) <= STEP:
        return _has_mark(body)
    for start in range(0, len(body), STEP):
        if _has_mark(body[start:start + STEP + OVERLAP]):
            return True
        pause()
    return False


def _has_mark(text: bytes) -> bool:
    # A single byte is found fastest, and all that is looked for has one of these two. `in` would take three times as
    # long: of bytes it first tries to make a number.
    found = text.find
    return (found(b"_") >= 0 and (found(b'_url"') >= 0 or found(b'"input_') >= 0 or found(b"multimodal_data") >= 0)) \
        or (found(b"\\u00") >= 0 and _DISGUISED.search(text) is not None)


def shown(asked: dict[str, Any], pause: Callable[[], None], translated: bool = False) -> tuple[set[str], int]:
    """The senses that the child's request `asked` needs, and how many pictures it shows, if these are all and have been
    in form; else 0. Its parts are checked and brought into form, in place; `pause` is called in between. One that was
    `translated` has parts that are in form. Raises RequestRefused."""
    senses: set[str] = set()
    pictures = number = 0
    for number, (sense, in_form) in enumerate(_every(asked, pause, translated), 1):
        if number > MOST:
            raise RequestRefused(f"the request shows more than {MOST} pictures, sounds and films: send fewer at a time")
        senses.add(sense)
        pictures += in_form
        pause()
    return senses, pictures if pictures == number else 0


def holds_only(body: bytes, pictures: int) -> bool:
    """Whether so many pictures in form are all that a request of these bytes can show, and all the addresses it names,
    whatever its reader makes of keys that come twice."""
    return (body.find(b"\\u00") < 0 or _DISGUISED.search(body) is None) \
        and body.count(_PICTURE) == 2 * pictures and body.count(_ADDRESS) == pictures


def written(asked: dict[str, Any]) -> bytes:
    """The child's request `asked`, whose pictures are in form, as JSON. It is used up: large pictures, whose text needs
    no escapes, are taken out and put in as they are. A writer of JSON looks at each character, and may copy all thrice.
    """
    aside: list[str] = []
    mark = secrets.token_hex(16)
    turns = asked.get("messages")
    for turn in turns if isinstance(turns, list) else ():
        parts = turn.get("content") if isinstance(turn, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") == "image_url" and len(part["image_url"]["url"]) > STEP:
                aside.append(part["image_url"]["url"])
                part["image_url"]["url"] = mark
    text = dumps(asked)
    if not aside:
        return text
    whole = BytesIO()
    for piece, url in zip(text.split(mark.encode()), [*aside, ""], strict=True):
        whole.write(piece)
        for start in range(0, len(url), STEP):
            whole.write(url[start:start + STEP].encode())
    return whole.getvalue()


def settle_offers(asked: dict[str, Any], sees: bool) -> bool:
    """Show the pictures that were only offered, or put their words in their place, in the child's request itself; the
    result says whether there were any."""
    found = False
    turns = asked.get("messages")
    for turn in turns if isinstance(turns, list) else ():
        parts = turn.get("content")
        if not isinstance(parts, list) or not any(OFFERED in part for part in parts):
            continue
        found = True
        words = [part.pop(OFFERED, None) for part in parts]
        if not sees:
            parts = [part if word is None else {"type": "text", "text": word}
                     for part, word in zip(parts, words, strict=True)]
            texts = [part["text"] for part in parts if part["type"] == "text"]
            turn["content"] = "\n".join(texts) if len(texts) == len(parts) else parts
    return found


def _every(asked: dict[str, Any], pause: Callable[[], None], translated: bool) -> Iterator[tuple[str, bool]]:
    """The sense for each, and whether it is a picture that has been in form."""
    turns = asked.get("messages")
    for number, turn in enumerate(turns if isinstance(turns, list) else ()):
        parts = turn.get("content") if isinstance(turn, dict) else None
        for place, part in enumerate(parts if isinstance(parts, list) else ()):
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in SENSES:
                where = f"messages[{number}].content[{place}].{kind}"
                yield SENSES[kind], translated or _mend(part, kind, where, pause)
    prompts = asked.get("prompt")
    for prompt in prompts if isinstance(prompts, list) else [prompts]:
        data = prompt.get("multimodal_data") if isinstance(prompt, dict) else None
        for place, item in enumerate(data if isinstance(data, list) else ()):
            yield _bare(item, f"multimodal_data[{place}]"), False


def _mend(part: dict[str, Any], kind: str, where: str, pause: Callable[[], None]) -> bool:
    """Bring a part into form: one that holds its bytes, and no address. Whether it is a picture that has been so."""
    given = part.get(kind)
    if kind == "image_url":
        url = given.get("url") if isinstance(given, dict) else given
        if not isinstance(url, str):
            refuse(f"{where}.url", "a data: URL with base64", url)
        mended = images.url_part(url, f"`{where}.url`", pause)[kind]
        if isinstance(given, dict) and mended["url"] == url:
            return True
        part[kind] = {**(given if isinstance(given, dict) else {}), **mended}
        return False
    given = given if isinstance(given, dict) else {"data": given}
    field = "data" if given.get("data") is not None else "url"
    data = given.get(field)
    if not isinstance(data, str):
        refuse(f"{where}.{field}", "base64", data)
    found, text, start = images.decoded(data, f"`{where}.{field}`", "recording", LARGEST, pause)
    known = is_sound(found) if kind == "input_audio" else is_film(found)
    if not known:
        offered = "WAV, MP3, FLAC or Ogg" if kind == "input_audio" else "MP4, MOV, Matroska, WebM or AVI"
        raise RequestRefused(f"`{where}.{field}` is no recording we know: send {offered}")
    part[kind] = {**{name: value for name, value in given.items() if name not in ("data", "url")}, "data": text[start:]}
    return False


def _bare(item: Any, where: str) -> str:
    """The sense for base64 that stands alone."""
    if not isinstance(item, str) or item.startswith("data:"):
        refuse(where, "base64", item)
    found, _, _ = images.decoded(item, f"`{where}`", "file", LARGEST)
    if is_sound(found):
        return "audio"
    if not is_film(found):
        images.part(item, f"`{where}`")
    return "vision"


def is_sound(found: bytes) -> bool:
    """Whether a file begins as WAV, MP3, FLAC or Ogg do."""
    return found.startswith(_SOUNDS) or (found[:4] == b"RIFF" and found[8:12] == b"WAVE")


def is_film(found: bytes) -> bool:
    """Whether a file begins as MP4, MOV, Matroska, WebM or AVI do. Of other kinds some are lists of addresses, which
    the engine's ffmpeg would open."""
    return found[4:8] == b"ftyp" or found.startswith(_MATROSKA) or (found[:4] == b"RIFF" and found[8:12] == b"AVI ")
