"""Engines that are routers, or are none, for tests of the router child."""

from pathlib import Path

from tests.support.daemon import ROOT

STUB_ROUTER = ROOT / "tests" / "stubs" / "stub_router.py"


def without_router(folder: Path) -> str:
    """The same engine, whose help knows nothing of a router: the path for BLAZAR_ENGINE_PATH."""
    file = folder / "llama-server"
    file.write_text(f'#!/bin/sh\n[ "$1" = --help ] && {{ "{STUB_ROUTER}" --help | grep -v -e --models-; exit; }}\n'
                    f'exec "{STUB_ROUTER}" "$@"\n')
    file.chmod(0o755)
    return str(file)
