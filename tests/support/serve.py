"""Runs the real `serve` with settings given as JSON: `python -m tests.support.serve DATA_DIR JSON [LAUNCHER…]`.

The JSON holds settings; `file` in it is a configuration file over which they stand as flags, `engine_path` stands for
BLAZAR_ENGINE_PATH, and `census` is the file of a saved census that stands for this machine, read at each look.
"""

import json
import sys
from pathlib import Path

from blazar.config.config import Config
from blazar.config.load import load
from blazar.errors import BlazarError
from blazar.hardware.census import census, read_census
from blazar.paths import Paths
from blazar.supervisor.daemon import serve
from blazar.supervisor.gateway import LAUNCHER


def main() -> int:
    values = json.loads(sys.argv[2])
    engine_path = values.pop("engine_path", None)
    recorded = values.pop("census", None)
    look = census if recorded is None else lambda: read_census(Path(recorded))
    file = values.pop("file", None)
    env = {"BLAZAR_ENGINE_PATH": engine_path} if engine_path else {}

    def read() -> Config:
        return load(Path(file), env, values, must_exist=True)
    try:
        if file is not None:
            return serve(read(), Paths(Path(sys.argv[1])), sys.argv[3:] or LAUNCHER, look, read)
        plain = Config.from_dict(values)
        config = Config({**plain.as_dict()}, {}, Path(), runtime={"BLAZAR_ENGINE_PATH": engine_path})
        return serve(config, Paths(Path(sys.argv[1])), sys.argv[3:] or LAUNCHER, look)
    except BlazarError as error:
        print(f"blazar: {error.message}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
