"""Are the programs there with which engines are started, and may enough files be open?"""

import resource
import shutil

from blazar.doctor.check import Finding, Surroundings
from blazar.errors import ConfigRefused

ENOUGH_FILES = 4096
"""Open files with which about 2000 clients can be served."""


def check_programs(surroundings: Surroundings) -> Finding:
    path = surroundings.env.get("PATH")
    if shutil.which("setpriv", path=path) is None:
        return Finding("programs", "fail", "there is no setpriv, without which no engine is started",
                       "`sudo apt install util-linux`, and see that PATH has /usr/bin")
    try:
        folder = surroundings.config.video_ffmpeg_dir
    except ConfigRefused:
        folder = ""
    missing = [name for name in ("ffmpeg", "ffprobe") if shutil.which(name, path=folder or path) is None]
    if missing:
        return Finding("programs", "ok", f"setpriv; without {' and '.join(missing)} no films and no WebP pictures can "
                       "be shown to models (`sudo apt install ffmpeg`)")
    return Finding("programs", "ok", "setpriv, ffmpeg, ffprobe")


def check_limits(surroundings: Surroundings) -> Finding:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < ENOUGH_FILES:
        return Finding("limits", "warn", f"{most} open files, enough for about {max(0, most // 2 - 64)} clients",
                       f"`ulimit -Hn {ENOUGH_FILES * 16}` as root before the daemon starts, or LimitNOFILE= in "
                       "its unit")
    return Finding("limits", "ok", f"{'any number of' if most == resource.RLIM_INFINITY else most} open files")
