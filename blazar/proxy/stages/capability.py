"""Stage `capability`: whether the model can do what is asked, as its file tells; refused before anything is loaded."""

from collections.abc import Mapping
from typing import Any

from blazar.errors import KnobRefused, NotCapable, RequestRefused
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange, Inputs


class Capability:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, exchange: Exchange) -> None:
        model = self._directory.models[exchange.model]
        has = model["capabilities"]
        if exchange.needs not in has and exchange.needs:
            raise NotCapable(model=exchange.model, capability=exchange.needs, has=", ".join(has))
        if exchange.thinks and "thinking" not in has:
            raise NotCapable(model=exchange.model, capability="thinking", has=", ".join(has))
        if exchange.inputs is not None:
            _check(exchange.model, exchange.inputs, model)


def _check(name: str, inputs: Inputs, model: Mapping[str, Any]) -> None:
    """Whether an embedding model gives such vectors."""
    length = model.get("embedding_length") or 0
    if inputs.late and not model.get("late_chunking"):
        raise KnobRefused(knob="`late_chunking`", reason=f"{name} runs without it",
                          remedy=f'set late_chunking = true in [model_overrides."{name}"]')
    if 0 < length < inputs.dimensions:
        raise RequestRefused(f"`dimensions` is {inputs.dimensions}, and the vectors of {name} have {length}: ask for "
                             "at most as many")
