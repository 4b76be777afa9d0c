"""Which bank belongs to a child: what its saved slots depend on, worked out when it is loaded."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from blazar.engines.lane import Command, Launch
from blazar.engines.llamacpp import SAVE_FLAG, cache_types
from blazar.supervisor.banks import Bank
from blazar.transport import model_at

SEEN_WITH = "--mmproj"
APART = frozenset({"--ctx-size", "--cache-type-k", "--cache-type-v", SEEN_WITH})
"""Flags whose values a bank's origin has under names of their own."""
TUNED = frozenset({"--ubatch-size", "--spec-type", "--spec-draft-model", "--lookup-cache-dynamic"})
"""Flags that may change while the daemon runs. What a draft model keeps is not in a slot's file."""
FREE = TUNED | {"--parallel", "--gpu-layers", "--api-key-file", "--threads", "--threads-batch", "--sleep-idle-seconds",
                "--cache-ram"}
"""Flags that change nothing about what a slot holds."""


def bank_of(place: str, launch: Launch, command: Command) -> Bank | None:
    """The bank of the child `place`; None when it is not to have one, or its engine saves nothing."""
    if launch.sessions is None or not launch.settings.get("session_bank") or SAVE_FLAG not in command.argv:
        return None
    number = place.removeprefix(model_at(place)).strip()
    return Bank(launch.sessions, f"_auto{number}", launch.model, origin_of(launch, command),
                sum(part.cache for part in launch.plan.parts) if launch.plan else 0,
                float(launch.settings.get("session_keep_secs") or 0))


def origin_of(launch: Launch, command: Command) -> dict[str, Any]:
    """What must be the same for saved slots to be of use; their context is added when it is known."""
    keys, values = cache_types(launch.settings)
    version = launch.manifest.version if launch.manifest else None
    build = [launch.program.tag, version, *launch.program.argv, *_states(launch.program.argv)]
    adapters = [lora["path"] for lora in launch.settings.get("loras") or ()]
    flags = [*_lasting(command.argv[len(launch.program.argv):]), *_states(adapters)]
    return {"digest": launch.facts["digest"], "build": _hash(build), "cache_type_k": keys, "cache_type_v": values,
            "projector": _projector(command.argv), "flags": _hash([flags, sorted(_plain(command.env).items())])}


def _projector(words: Sequence[str]) -> str:
    """What stands for the file that the child sees with; empty when it sees nothing."""
    files = [word for flag, word in pairwise(words) if flag == SEEN_WITH]
    return _hash([files, *_states(files)]) if files else ""


def _lasting(words: Sequence[str]) -> list[str]:
    """The flags without those that do not matter, each of which has a value."""
    left_out = {number for number, word in enumerate(words) if word in APART or word in FREE}
    return [word for number, word in enumerate(words) if not left_out & {number, number - 1}]


def _states(paths: Sequence[str]) -> list[str]:
    """Size and time of those that are files, so that a file in the place of another one is seen."""
    states = []
    for path in paths:
        with suppress(OSError):
            found = os.stat(path)
            states.append(f"{path} {found.st_size} {found.st_mtime_ns}")
    return states


def _plain(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name not in ("CUDA_VISIBLE_DEVICES", "PYTHONPATH")}


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:24]
