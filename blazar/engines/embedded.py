"""The embedded engine: llama.cpp's own HTTP server out of the `xllamacpp` wheel, behind llama-server's flag names.

Runs as a process of its own (`blazar-llama-server`, or `python -P -m blazar.engines.embedded`), so that to the
supervisor, and to anybody else, it is one more llama-server.
"""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from blazar.engines.embedded_flags import add_flags, fill_in, template_values
from blazar.errors import BlazarError, EngineStartFailed, UsageRefused

DESCRIPTION = "llama.cpp's HTTP server, from the xllamacpp wheel. Its flags are llama-server's; others are refused."

def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("blazar-llama-server", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=_version_text())
    parser.add_argument("-m", "--model", help="GGUF file to serve")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on, or the path of a *.sock file")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (0 = any free one)")
    parser.add_argument("-a", "--alias", help="name of the model in answers; several with commas")
    parser.add_argument("--api-key", help="key that requests must carry; several with commas")
    parser.add_argument("--api-key-file", help="file with such keys, one a line")
    parser.add_argument("--chat-template-file", help="file with the chat template")
    parser.add_argument("--chat-template-kwargs", type=_json_object, metavar="JSON", help="values for the template")
    parser.add_argument("--lora", help="adapter files; several with commas")
    parser.add_argument("--lora-scaled", metavar="FILE:SCALE,...", help="adapter files with how strongly they count")
    add_flags(parser)
    return parser


def fill(params: Any, options: argparse.Namespace, engine: Any) -> Any:
    """Write the options into `params`, an xllamacpp.CommonParams; what was not given keeps llama.cpp's default.

    `engine` is xllamacpp, for its enumerations and for adapters.
    """
    if not options.model:
        raise UsageRefused("no model given: say which GGUF file to serve with `--model FILE`")
    params.model.path = options.model
    params.hostnames = [options.host]
    params.port = options.port
    fill_in(params, options, engine)
    if options.alias:
        params.model_alias = set(_words(options.alias))
    if options.chat_template_file:
        params.chat_template = _read(options.chat_template_file, "--chat-template-file")
    if options.chat_template_kwargs:
        params.default_template_kwargs = template_values(options.chat_template_kwargs)
    adapters = [(path, 1.0) for path in _words(options.lora or "")]
    adapters += [_scaled(word) for word in _words(options.lora_scaled or "")]
    if adapters:
        params.lora_adapters = [_adapter(engine.CommonAdapterLoraInfo(), *one) for one in adapters]
    keys = _words(options.api_key or "")
    if options.api_key_file:
        lines = _read(options.api_key_file, "--api-key-file").splitlines()
        keys += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if keys:
        params.api_keys = keys
    return params


def main(argv: Sequence[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    try:
        serve(options)
    except BlazarError as error:
        print(f"blazar-llama-server: {error.message}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


def serve(options: argparse.Namespace) -> None:
    """Load the model, listen, and return after SIGTERM or SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)  # a load runs in C++: a Python handler would wait for its end
    try:
        engine = import_module("xllamacpp")
    except ImportError as error:
        raise EngineStartFailed(reason=f"{error}; install it with `pip install 'blazar[llama]'`") from error
    params = fill(engine.CommonParams(), options, engine)
    if not os.access(options.model, os.R_OK):
        raise EngineStartFailed(reason=f"cannot read the model file {options.model}")
    asked = threading.Event()
    try:
        server = engine.Server(params)
    except RuntimeError as error:
        raise EngineStartFailed(reason=f"{error} with {options.model}; the lines above say why") from error
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked.set())
    print(f"listening on {server.listening_address}", flush=True)
    asked.wait()
    del server


def _adapter(info: Any, path: str, scale: float) -> Any:
    info.path, info.scale = path, scale
    return info


def _scaled(word: str) -> tuple[str, float]:
    path, _, scale = word.rpartition(":")
    try:
        return path, float(scale)
    except ValueError as error:
        raise UsageRefused(f"--lora-scaled wants FILE:SCALE, not {word}") from error


def _json_object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError
    return value


def _version_text() -> str:
    try:
        return f"version: xllamacpp {version('xllamacpp')}"
    except PackageNotFoundError:
        return "version: xllamacpp is not installed"


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]


def _read(path: str, flag: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageRefused(f"cannot read {path} given with {flag}: {error}") from error


if __name__ == "__main__":
    raise SystemExit(main())
