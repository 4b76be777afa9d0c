#!/usr/bin/env python3
"""A stand-in for llama-server in router mode; without --models-preset it is the stub that it is made of.

Each section's model plays the scenario beside its own file, and keeps its own list of requests. One more key of it:

  says          [[status, message], …]: errors of the router that its next requests get, one each

`<preset file>.calls.jsonl` lists what was asked of the router itself: loads and unloads, in their order.
"""

import argparse
import json
import os
import signal
import threading
from pathlib import Path

import stub_llama_server as single


class Router:
    """`loaded` are the sections that would have a process, the least recently used first."""

    def __init__(self, presets: str, most: int) -> None:
        self.most = most
        self.loaded: list[str] = []
        self.lock = threading.Lock()
        self.calls = Path(presets + ".calls.jsonl")
        self.models: dict[str, single.Stub] = {}
        self.names: dict[str, str] = {}
        for text in Path(presets).read_text().split("[")[1:]:
            section, _, rest = text.partition("]\n")
            values = dict(line.split(" = ", 1) for line in rest.splitlines() if " = " in line)
            asked = argparse.Namespace(model=values["model"], api_key=None, api_key_file=None, alias=values["alias"],
                                       ctx_size=int(values["ctx-size"]), parallel=int(values["parallel"]))
            self.models[section] = single.Stub(asked, single.read_scenario(values["model"]))
            self.names |= {section: section, values["alias"]: section}

    def use(self, section: str) -> None:
        with self.lock:
            if section not in self.loaded and len(self.loaded) >= self.most > 0:
                self.note("unload", self.loaded.pop(0))
            if section not in self.loaded:
                self.note("load", section)
            self.loaded = [*(one for one in self.loaded if one != section), section]

    def unload(self, section: str) -> None:
        with self.lock:
            self.loaded.remove(section)
            self.note("unload", section)

    def note(self, what: str, section: str) -> None:
        with self.calls.open("a") as file:
            file.write(json.dumps([what, section]) + "\n")

    def listed(self) -> dict:
        return {"data": [{"id": section, "status": {"value": "loaded" if section in self.loaded else "unloaded"}}
                         for section in self.models]}


class RouterHandler(single.Handler):
    router: Router
    own: single.Stub
    """Knows the secret."""

    def answer(self, body: bytes) -> None:
        router, keys = self.router, self.own.keys
        path = self.path.partition("?")[0]
        if path == "/health":
            self.send(200, {"status": "ok"})
        elif keys and self.key() not in keys:
            self.send(401, single.error(401, "Invalid API Key", "authentication_error"))
        elif path == "/props":
            self.send(200, {"role": "router", "default_generation_settings": {"params": None, "n_ctx": 0}})
        elif path == "/models":
            self.send(200, router.listed())
        else:
            self.route(path, body)

    def route(self, path: str, body: bytes) -> None:
        router = self.router
        name = json.loads(body).get("model", "")
        section = router.names.get(name)
        if section is None:
            self.send(400, single.error(400, f"model '{name}' not found", "invalid_request_error"))
            return
        if path == "/models/unload":
            router.unload(section)
            self.send(200, {"success": True})
            return
        self.stub = router.models[section]
        self.stub.record(self, body)
        says = self.stub.play.get("says")
        if says:
            status, message = says.pop(0)
            self.send(status, single.error(status, message, "server_error"))
            return
        router.use(section)
        self.complete(body)


def main() -> None:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--models-preset")
    parser.add_argument("--models-max", type=int, default=4)
    asked = parser.parse_known_args()[0]
    if not asked.models_preset:
        single.main()
        return
    found = single.options()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    RouterHandler.own = single.Stub(found, {})
    RouterHandler.router = Router(asked.models_preset, asked.models_max)
    single.Handler = RouterHandler  # whom `bind` hands to the server
    single.bind(found).serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
