"""The embedded engine: llama.cpp's own HTTP server out of the `xllamacpp` wheel, behind llama-server's flag names.

Runs as a process of its own (`blazar-llama-server`, or `python -P -m blazar.engines.embedded`), so that to the
supervisor, and to anybody else, it is one more llama-server.
"""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from blazar.errors import BlazarError, EngineStartFailed, UsageRefused

DESCRIPTION = "llama.cpp's HTTP server, from the xllamacpp wheel. Its flags are llama-server's; others are refused."

PLAIN = [
    # flags, attribute of CommonParams, type, help
    (("-c", "--ctx-size"), "n_ctx", int, "tokens of context, shared by all slots (0 = as the model was trained)"),
    (("-np", "--parallel"), "n_parallel", int, "slots: requests served at the same time"),
    (("-b", "--batch-size"), "n_batch", int, "tokens handed to the engine in one logical batch"),
    (("-ub", "--ubatch-size"), "n_ubatch", int, "tokens computed in one physical batch"),
    (("-n", "--predict"), "n_predict", int, "most tokens an answer may have (-1 = no limit)"),
    (("-ngl", "--n-gpu-layers"), "n_gpu_layers", int, "layers kept on the GPU (-1 = as many as fit)"),
    (("--cache-ram",), "cache_ram_mib", int, "MiB of memory for cached prompts"),
    (("--cache-reuse",), "n_cache_reuse", int, "shortest run of tokens re-used from a cached prompt"),
    (("--slot-save-path",), "slot_save_path", str, "folder, ending in /, where slots are saved"),
    (("--sleep-idle-seconds",), "sleep_idle_seconds", int, "seconds without a request until memory is given back"),
    (("--threads-http",), "n_threads_http", int, "threads that serve HTTP"),
    (("-to", "--timeout"), "timeout_read", int, "seconds a read or a write may take"),
    (("-lv", "--verbosity"), "verbosity", int, "how much is logged"),
    (("--chat-template",), "chat_template", str, "chat template, or the name of a built-in one"),
]

SWITCHES = [
    # flags, attribute of CommonParams, value when given, help
    (("--embeddings", "--embedding"), "embedding", True, "serve embeddings"),
    (("--metrics",), "endpoint_metrics", True, "serve /metrics"),
    (("--props",), "endpoint_props", True, "allow changing /props"),
    (("--slots",), "endpoint_slots", True, "serve /slots (this is the default)"),
    (("--no-slots",), "endpoint_slots", False, "do not serve /slots"),
    (("--jinja",), "use_jinja", True, "render chat templates with jinja (this is the default)"),
    (("--no-jinja",), "use_jinja", False, "do not render chat templates with jinja"),
    (("--no-webui", "--no-ui"), "ui", False, "no web page (there is none inside anyway)"),
    (("--no-warmup",), "warmup", False, "do not warm up before the first request"),
    (("-kvu", "--kv-unified"), "kv_unified", True, "one KV buffer for all slots"),
    (("--swa-full",), "swa_full", True, "full-size cache for sliding-window attention"),
    (("--reuse-port",), "reuse_port", True, "let several processes listen on one port"),
]


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("blazar-llama-server", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=_version_text())
    parser.add_argument("-m", "--model", help="GGUF file to serve")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on, or the path of a *.sock file")
    parser.add_argument("--port", type=int, default=8080, help="port to listen on (0 = any free one)")
    parser.add_argument("-t", "--threads", type=int, help="threads that compute")
    parser.add_argument("-tb", "--threads-batch", type=int, help="threads that compute prompts")
    parser.add_argument("-a", "--alias", help="name of the model in answers; several with commas")
    parser.add_argument("--api-key", help="key that requests must carry; several with commas")
    parser.add_argument("--api-key-file", help="file with such keys, one a line")
    parser.add_argument("--pooling", choices=["none", "mean", "cls", "last", "rank"], help="how embeddings are pooled")
    parser.add_argument("--chat-template-file", help="file with the chat template")
    parser.add_argument("-mm", "--mmproj", help="file that projects images or audio into the model")
    parser.add_argument("--lora", help="adapter files; several with commas")
    for flags, attribute, kind, text in PLAIN:
        parser.add_argument(*flags, dest=attribute, type=kind, help=text)
    for flags, attribute, value, text in SWITCHES:
        parser.add_argument(*flags, dest=attribute, action="store_const", const=value, help=text)
    return parser


def fill(params: Any, options: argparse.Namespace, pooling: Callable[[str], Any],
         adapter: Callable[[str], Any] = str) -> Any:
    """Write the options into `params`, an xllamacpp.CommonParams; what was not given keeps llama.cpp's default.

    `pooling` and `adapter` make xllamacpp's values of a name and a path.
    """
    if not options.model:
        raise UsageRefused("no model given: say which GGUF file to serve with `--model FILE`")
    params.model.path = options.model
    params.hostnames = [options.host]
    params.port = options.port
    for _flags, attribute, *_rest in (*PLAIN, *SWITCHES):
        value = getattr(options, attribute)
        if value is not None:
            setattr(params, attribute, value)
    if options.timeout_read is not None:
        params.timeout_write = options.timeout_read
    if options.threads is not None:
        params.cpuparams.n_threads = options.threads
    if options.threads_batch is not None:
        params.cpuparams_batch.n_threads = options.threads_batch
    if options.alias:
        params.model_alias = set(_words(options.alias))
    if options.pooling:
        params.pooling_type = pooling(options.pooling)
    if options.chat_template_file:
        params.chat_template = _read(options.chat_template_file, "--chat-template-file")
    if options.mmproj:
        params.mmproj.path = options.mmproj
    if options.lora:
        params.lora_adapters = [adapter(path) for path in _words(options.lora)]
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
    params = fill(engine.CommonParams(), options,
                  lambda name: getattr(engine.llama_pooling_type, f"LLAMA_POOLING_TYPE_{name.upper()}"),
                  lambda path: _adapter(engine.CommonAdapterLoraInfo(), path))
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


def _adapter(info: Any, path: str) -> Any:
    info.path, info.scale = path, 1.0
    return info


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
