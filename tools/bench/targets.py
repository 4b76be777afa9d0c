"""What is measured beside Blazar: the engine alone, nginx, HAProxy, Go's reverse proxy, LiteLLM."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from tools.bench import machine, process, programs
from tools.bench.counts import Counts

START_LIMIT = 10.0
LITELLM_VENV = "BLAZAR_BENCH_LITELLM"
"""The environment variable that names a virtual environment with LiteLLM's proxy in it."""


class Target:
    """One way from the client to an engine. `start` before, `stop` after; both know what to do when half started."""

    name = ""
    slow = False
    """Gets the gentle variants of workloads."""
    keys: Path | None = None
    model = "bench"

    def __init__(self, layout: machine.Layout, folder: Path) -> None:
        self.layout = layout
        self.folder = folder
        self.to = ""
        """Where the client connects, HOST:PORT."""
        self.engine = ""
        """The engine behind it, HOST:PORT."""
        self._process: process.Process | None = None

    def start(self) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def pids(self) -> list[int]:
        """The processes whose CPU time is its cost."""
        return [] if self._process is None else machine.family(self._process.pid)

    def counts(self) -> Counts | None:
        """What it has counted itself so far; None when it does not count."""
        return None

    def version(self) -> str:
        return ""


class Direct(Target):
    """The engine itself. The others share its engine."""

    name = "direct"

    def start(self) -> None:
        engine = programs.build_c("engine")
        self._process = process.Process([str(engine), "--port", "0"], self.layout.client, self.folder / "engine.log")
        started = self._process
        self.to = self.engine = started.wait_for(lambda: started.line_after("listening on "), START_LIMIT)

    def pids(self) -> list[int]:
        return []


class Proxy(Target):
    """A program in front of the shared engine. `program` is its name in `programs.PACKAGES`."""

    program = ""
    limit = START_LIMIT

    def __init__(self, layout: machine.Layout, folder: Path, engine: str) -> None:
        super().__init__(layout, folder)
        self.engine = engine

    def start(self) -> None:
        self.to = f"127.0.0.1:{process.free_port()}"
        self._process = process.Process(self.command(), self.layout.proxy, self.folder / f"{self.name}.log",
                                        {**os.environ, **self.environment()})
        self._process.wait_for(lambda: process.get(self.to, "/health", limit=1)[0] == 200, self.limit)

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> Mapping[str, str]:
        return {}

    def write(self, name: str, text: str) -> str:
        file = self.folder / name
        file.write_text(text)
        return str(file)


NGINX = """\
{user}
worker_processes 1;
worker_rlimit_nofile 16384;
pid {folder}/nginx.pid;
error_log stderr warn;
daemon off;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    tcp_nodelay on;
    keepalive_requests 100000000;
    client_max_body_size 64m;
    client_body_buffer_size 4m;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream engine {{ server {engine}; keepalive 4096; keepalive_requests 100000000; }}
    server {{
        listen {to} backlog=4096;
        location / {{
            proxy_pass http://engine;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 600s;
        }}
    }}
}}
"""


class Nginx(Proxy):
    name = program = "nginx"

    def command(self) -> list[str]:
        text = NGINX.format(user="user root;" if os.geteuid() == 0 else "", folder=self.folder, engine=self.engine,
                            to=self.to)
        return [programs.find("nginx"), "-e", "stderr", "-c", self.write("nginx.conf", text)]

    def version(self) -> str:
        return _version([programs.find("nginx"), "-v"])


HAPROXY = """\
global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  option http-no-delay
  option abortonclose
  http-reuse always
frontend clients
  bind {to}
  default_backend engine
backend engine
  server engine {engine} pool-max-conn 4096
"""


class Haproxy(Proxy):
    name = program = "haproxy"

    def command(self) -> list[str]:
        return [programs.find("haproxy"), "-db", "-f",
                self.write("haproxy.cfg", HAPROXY.format(to=self.to, engine=self.engine))]

    def version(self) -> str:
        return _version([programs.find("haproxy"), "-v"])


class Go(Proxy):
    name = program = "go"

    def command(self) -> list[str]:
        return [str(programs.build_go()), self.to, f"http://{self.engine}"]

    def environment(self) -> Mapping[str, str]:
        return {"GOMAXPROCS": "1"}

    def version(self) -> str:
        return _version([programs.find("go"), "version"])


LITELLM = """\
model_list:
  - model_name: bench
    litellm_params:
      model: openai/bench
      api_base: http://{engine}/v1
      api_key: none
litellm_settings:
  telemetry: false
general_settings:
  dangerously_permit_weak_or_unset_master_key: true
"""


class LiteLlm(Proxy):
    name = "litellm"
    slow = True
    limit = 120.0

    def start(self) -> None:
        self.to = f"127.0.0.1:{process.free_port()}"
        self._process = process.Process(self.command(), self.layout.proxy, self.folder / "litellm.log")
        self._process.wait_for(lambda: process.get(self.to, "/health/liveliness", limit=1)[0] == 200, self.limit)

    def command(self) -> list[str]:
        host, _, port = self.to.partition(":")
        config = self.write("litellm.yaml", LITELLM.format(engine=self.engine))
        return [str(self._program()), "--config", config, "--host", host, "--port", port, "--num_workers", "1"]

    def version(self) -> str:
        return _version([str(self._program()), "--version"])

    @classmethod
    def is_there(cls) -> bool:
        """Whether the variable names a virtual environment with it."""
        return bool(os.environ.get(LITELLM_VENV)) and cls._program().is_file()

    @staticmethod
    def _program() -> Path:
        return Path(os.environ[LITELLM_VENV]).expanduser().absolute() / "bin" / "litellm"


def _version(command: list[str]) -> str:
    """The first thing like a version that a program says of itself."""
    found = re.search(r"\d+(\.\d+)+", programs.output(command))
    return found[0] if found else ""
