"""Where everything lies: the configuration file, the data dir and what is in it.

Called once by the CLI and by `serve`; everybody else is handed a `Paths`. XDG variables decide, then HOME;
without either, the working directory is used and the caller warns.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

SYSTEM_CONFIG = Path("/etc/blazar/config.toml")
SYSTEM_DATA = Path("/var/lib/blazar")


@dataclass(frozen=True)
class Paths:
    """The folders of one data dir. Nothing is created until `ensure`."""

    data_dir: Path

    @classmethod
    def around(cls, control_socket: Path) -> "Paths":
        """The data dir in which this control socket lies."""
        return cls(control_socket.parent.parent)

    @property
    def database(self) -> Path:
        return self.data_dir / "blazar.db"

    @property
    def models(self) -> Path:
        return self.data_dir / "models"

    @property
    def blobs(self) -> Path:
        """Model files by content: `blobs/<sha256 hex>.gguf`."""
        return self.models / "blobs"

    @property
    def incoming(self) -> Path:
        """Downloads and imports under way; on the same file system as `blobs`, so a rename is atomic."""
        return self.models / "incoming"

    @property
    def partial(self) -> Path:
        """Downloads that go on after an interruption; on the same file system as `blobs` too."""
        return self.models / "partial"

    @property
    def uploads(self) -> Path:
        """Files that clients have sent for models not made yet: `uploads/<sha256 hex>`; on the blobs' file system."""
        return self.models / "uploads"

    @property
    def sets(self) -> Path:
        """For each loaded model that needs them, a folder of links and small files made for its engine."""
        return self.run / "sets"

    @property
    def speccache(self) -> Path:
        """For each model the n-grams that speculation looks up."""
        return self.data_dir / "speccache"

    @property
    def files(self) -> Path:
        """Files of clients and of their batches, under their ids."""
        return self.data_dir / "files"

    @property
    def engines(self) -> Path:
        return self.data_dir / "engines"

    @property
    def manifests(self) -> Path:
        """What engine programs told of themselves, kept until they change; made when first needed."""
        return self.run / "manifests"

    @property
    def run(self) -> Path:
        return self.data_dir / "run"

    @property
    def router_presets(self) -> Path:
        """How a router child loads each model, made from the store whenever one starts."""
        return self.run / "router.ini"

    @property
    def sessions(self) -> Path:
        """What children have read, kept for those that come back: `sessions/<model>/`."""
        return self.data_dir / "sessions"

    @property
    def log(self) -> Path:
        return self.data_dir / "log"

    @property
    def daemon_lock(self) -> Path:
        return self.run / "daemon.lock"

    @property
    def store_lock(self) -> Path:
        return self.run / "store.lock"

    @property
    def control_socket(self) -> Path:
        return self.run / "control.sock"

    @property
    def daemon_log(self) -> Path:
        return self.run / "daemon.log"

    @property
    def audit_log(self) -> Path:
        return self.log / "audit.jsonl"

    @property
    def data_dir_id(self) -> str:
        """A short, stable mark of this data dir, put into the environment of every child."""
        return hashlib.sha256(os.fsencode(self.data_dir.resolve())).hexdigest()[:12]

    def ensure(self) -> "Paths":
        """Create what is missing: run/, sessions/ and files/ 0700, the rest 0755 less the umask. Raises OSError."""
        for folder in (self.data_dir, self.models, self.blobs, self.incoming, self.uploads, self.engines, self.log,
                       self.speccache):
            folder.mkdir(parents=True, exist_ok=True)
        for folder in (self.run, self.sessions, self.files):
            folder.mkdir(mode=0o700, exist_ok=True)
            folder.chmod(0o700)
        return self


def flush_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Not every file system can, which is no error."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class Located:
    """What `locate` found: the configuration file (which need not exist), the data dir, and what to warn of."""

    config_file: Path
    paths: Paths
    warnings: tuple[str, ...] = ()


def locate(env: Mapping[str, str], config: str | None = None, data_dir: str | None = None) -> Located:
    """Find configuration file and data dir from the environment and the command line's own choices.

    Order for the file: `config`, BLAZAR_CONFIG, blazar/config.toml under XDG_CONFIG_HOME or ~/.config when it is
    there, /etc/blazar/config.toml when it is there, else the user's path. The data dir follows XDG_DATA_HOME, or
    ~/.local/share, and is /var/lib/blazar when the system's file is the one in use.
    """
    warnings: list[str] = []
    config_home = _base(env, "XDG_CONFIG_HOME", ".config", warnings)
    data_home = _base(env, "XDG_DATA_HOME", ".local/share", warnings)
    user_file = config_home / "blazar" / "config.toml"
    chosen = config or env.get("BLAZAR_CONFIG")
    if chosen:
        file = Path(chosen).expanduser()
    elif user_file.exists() or not SYSTEM_CONFIG.exists():
        file = user_file
    else:
        file = SYSTEM_CONFIG
    if data_dir:
        folder = Path(data_dir).expanduser()
    elif file == SYSTEM_CONFIG:
        folder = SYSTEM_DATA
    else:
        folder = data_home / "blazar"
    return Located(file, Paths(folder.absolute()), tuple(dict.fromkeys(warnings)))


def package_home() -> Path:
    """The folder that holds this package: what a `python -P` child needs on its PYTHONPATH."""
    return Path(__file__).parent.parent


def _base(env: Mapping[str, str], variable: str, under_home: str, warnings: list[str]) -> Path:
    if env.get(variable):
        return Path(env[variable])
    if env.get("HOME"):
        return Path(env["HOME"]) / under_home
    warnings.append(f"neither {variable} nor HOME is set: using the working directory {Path.cwd()}; "
                    f"set one of them to keep your data in one place")
    return Path.cwd()


class NoFile(OSError):
    """Something else than a file lies there: a pipe, which would make its reader wait, or a device."""


def open_file(file: str | os.PathLike[str]) -> BinaryIO:
    """Open a file for reading, and nothing else than a file, or /dev/null. Never waits. Raises OSError, NoFile."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) or found.st_rdev == os.stat(os.devnull).st_rdev:
        return open(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    raise NoFile(errno.EINVAL, "it is no file, but a pipe or a device", str(file))
