"""The checks of programs and limits, with folders and limits of our own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from blazar.doctor.check import Surroundings
from blazar.doctor.programs import check_programs
from blazar.paths import locate

LIMITED = """
import json, resource, sys
from dataclasses import asdict
from pathlib import Path
from blazar.doctor.check import Surroundings
from blazar.doctor.programs import check_limits
from blazar.paths import locate
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[1])))
print(json.dumps(asdict(check_limits(Surroundings(locate({"HOME": "/"}), {})))))
"""


def with_programs(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.parametrize(("names", "state", "found"), [
    ((), "fail", "there is no setpriv"), (("setpriv",), "ok", "without ffmpeg and ffprobe no films"),
    (("setpriv", "ffmpeg"), "ok", "without ffprobe"),
    (("setpriv", "ffmpeg", "ffprobe"), "ok", "setpriv, ffmpeg, ffprobe"),
])
def test_programs(tmp_path, names, state, found):
    path = str(with_programs(tmp_path / "bin", *names))
    finding = check_programs(Surroundings(locate({"HOME": str(tmp_path)}), {"PATH": path}))
    assert finding.state == state and found in finding.found
    assert state == "ok" or "`sudo apt install util-linux`" in finding.remedy


def test_ffmpeg_in_its_own_folder(tmp_path):
    path = str(with_programs(tmp_path / "bin", "setpriv"))
    folder = with_programs(tmp_path / "films", "ffmpeg", "ffprobe")
    file = tmp_path / "config.toml"
    file.write_text(f'video_ffmpeg_dir = "{folder}"\n')
    finding = check_programs(Surroundings(locate({"HOME": str(tmp_path)}, str(file)), {"PATH": path}))
    assert finding.found == "setpriv, ffmpeg, ffprobe"


@pytest.mark.parametrize(("limit", "state", "found"), [
    (1024, "warn", "1024 open files, enough for about 448 clients"), (4096, "ok", "4096 open files")])
def test_limits(limit, state, found):
    done = subprocess.run([sys.executable, "-c", LIMITED, str(limit)], capture_output=True, text=True, check=True)
    finding = json.loads(done.stdout)
    assert (finding["state"], finding["found"]) == (state, found)
    assert ("`ulimit -Hn" in finding["remedy"]) == (state != "ok")
