"""Starts gunicorn for the gateway: `python -P -m blazar.proxy.serve --fd N --control PATH --grace SECONDS`.

The supervisor runs this with the listener already bound. No configuration file and no environment variable of
gunicorn is read, and only settings that this gunicorn version knows are set.
"""

import argparse
import logging
import os
import resource
from pathlib import Path
from typing import Any

from gunicorn.app.base import BaseApplication

from blazar.proxy.wire.worker import GatewayWorker

LONGEST_END = 8 * 86400
"""Seconds that a worker may take to end: the longest that streams may go on in one that was replaced, and more."""
KEPT_ALIVE = 75
"""Seconds an idle client connection is kept."""
WORKER = f"{GatewayWorker.__module__}.{GatewayWorker.__qualname__}"
"""By name: gunicorn 20.1 wants to print it."""
SPARE_DESCRIPTORS = 64
MOST_DESCRIPTORS = 1 << 20


class Launcher(BaseApplication):
    """gunicorn's application object: settings in the master, the WSGI application in the worker."""

    def __init__(self, fd: int, control: Path, grace: float) -> None:
        self.grace = grace
        self.gateway: Any = None
        self._fd = fd
        self._control = control
        super().__init__(prog="blazar")

    def load_config(self) -> None:
        for name, value in self._settings().items():
            if name in self.cfg.settings:
                self.cfg.set(name, value)

    def _settings(self) -> dict[str, Any]:
        return {
            "bind": f"fd://{self._fd}",
            "workers": 1,
            "worker_class": WORKER,
            "worker_connections": _most_connections(),
            "timeout": 0,  # 20.1 measures it by wall clock; the supervisor hears our beat instead
            "graceful_timeout": LONGEST_END,  # the worker ends in time, or the supervisor ends both
            "keepalive": KEPT_ALIVE,
            "proc_name": "blazar-gateway",
            "loglevel": "warning",
            "accesslog": None,
            "errorlog": "-",
            "control_socket_disable": True,  # gunicorn 27 would put it into the home folder
        }

    def load(self) -> Any:
        """In the worker, with everything patched: connect to the supervisor and build the application."""
        from blazar.proxy.app import create_app
        from blazar.telemetry.log import FORM, set_level
        logging.basicConfig(level=logging.INFO, format=FORM)
        application = create_app(self._control)
        set_level(application.gateway.log_level)
        self.gateway = application.gateway
        return application


def _most_connections() -> int:
    """Client connections for which there are descriptors, with one more each for its child."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_DESCRIPTORS if limit == resource.RLIM_INFINITY else min(limit, MOST_DESCRIPTORS)
    return max(1, limit // 2 - SPARE_DESCRIPTORS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="blazar.proxy.serve", description="Internal: the gateway's gunicorn.")
    parser.add_argument("--fd", type=int, required=True, help="descriptor of the bound listener")
    parser.add_argument("--control", type=Path, required=True, help="the supervisor's control socket")
    parser.add_argument("--grace", type=float, required=True, help="seconds streams may go on after SIGTERM")
    arguments = parser.parse_args()
    for name in ("GUNICORN_CMD_ARGS", "SCRIPT_NAME"):  # the second would cut our paths
        os.environ.pop(name, None)
    Launcher(arguments.fd, arguments.control, arguments.grace).run()


if __name__ == "__main__":
    main()
