"""Stage `capability`: whether the model can do what is asked, as its file tells; refused before anything is loaded."""

from blazar.errors import NotCapable
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange


class Capability:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, exchange: Exchange) -> None:
        has = self._directory.models[exchange.model]["capabilities"]
        for needed in (exchange.needs, *(("thinking",) if exchange.thinks else ())):
            if needed and needed not in has:
                raise NotCapable(model=exchange.model, capability=needed, has=", ".join(has))
