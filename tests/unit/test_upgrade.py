"""`blazar upgrade`, with real pip and a package index on loopback: a Blazar in its own environment is replaced."""

import base64
import hashlib
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from blazar import __version__
from tests.servers.file_server import FileServer, Reply

PACKAGE = Path(__file__).parent.parent.parent / "blazar"
NEWER = "99.1.0"


def wheel(name="blazar", version=NEWER, files=(), requires=(), extras=("llama", "some")):
    """A wheel as bytes, of `files` (path, content)."""
    extra = "".join(f"Provides-Extra: {one}\n" for one in extras)
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extra}{needs}"
    contents = [*files, (f"{info}/METADATA", metadata.encode()),
                (f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")]
    hashes = [(path, base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(), len(content))
              for path, content in contents]
    record = "".join(f"{path},sha256={digest},{size}\n" for path, digest, size in hashes) + f"{info}/RECORD,,\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, content in [*contents, (f"{info}/RECORD", record.encode())]:
            archive.writestr(path, content)
    return packed.getvalue()


def this_package(version):
    """The files of this checkout's package, under another version."""
    for path in sorted(PACKAGE.rglob("*.py")):
        content = path.read_bytes()
        if path == PACKAGE / "__init__.py":
            content = content.replace(__version__.encode(), version.encode())
        yield f"blazar/{path.relative_to(PACKAGE)}", content


class Index(FileServer):
    """A package index in the simple form."""

    def __init__(self):
        super().__init__()
        self.links = {}

    def publish(self, name, version, content, told="right"):
        path = f"/files/{name}-{version}-py3-none-any.whl"
        self.put(path, content)
        digest = {"right": hashlib.sha256(content).hexdigest(), "wrong": "0" * 64}[told]
        self.links.setdefault(name, []).append(f'<a href="{path}#sha256={digest}">{path.rpartition("/")[2]}</a>')
        page = f"<!DOCTYPE html><html><body>{''.join(self.links[name])}</body></html>".encode()
        self.on(f"/simple/{name}/", lambda seen: Reply(200, page, {"Content-Type": "text/html"}))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with this Blazar, as pip installs it, and for the rest with the packages that are here."""
    folder = tmp_path_factory.mktemp("installed") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python3*/site-packages"))
    ours = {sysconfig.get_path("purelib"), "/usr/lib/python3/dist-packages"}
    (site / "ours.pth").write_text("".join(f"{path}\n" for path in ours if os.path.isdir(path)))
    file = folder.parent / f"blazar-{__version__}-py3-none-any.whl"
    file.write_bytes(wheel(version=__version__, files=this_package(__version__)))
    subprocess.run([folder / "bin" / "python", "-P", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
                    "--ignore-installed", "--disable-pip-version-check", str(file)], check=True, cwd=folder.parent,
                   env={"PATH": os.environ["PATH"], "PIP_CONFIG_FILE": os.devnull})
    return folder


@pytest.fixture
def home(installed, tmp_path):
    """A copy of that environment; call it with the words of a verb."""
    shutil.copytree(installed, tmp_path / "env", symlinks=True)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}

    def run(*words, **more):
        return subprocess.run([tmp_path / "env" / "bin" / "python", "-P", "-m", "blazar.cli.main", *words],
                              env={**env, **more}, capture_output=True, text=True, cwd=tmp_path, timeout=90)

    return run


@pytest.fixture
def index():
    with Index() as server:
        yield server


def settings(index):
    return {"PIP_INDEX_URL": index.url("/simple/"), "PIP_NO_CACHE_DIR": "1"}


def test_it_is_replaced_by_the_newest(home, index):
    content = wheel(files=this_package(NEWER))
    index.publish("blazar", "0.0.9", wheel(version="0.0.9"))
    index.publish("blazar", NEWER, content)
    sha256 = hashlib.sha256(content).hexdigest()
    plan = [f"blazar {__version__} -> {NEWER}",
            f"  blazar {NEWER}  blazar-{NEWER}-py3-none-any.whl  sha256 {sha256}"]
    dry = home("upgrade", "--dry-run", **settings(index))
    assert (dry.stdout.splitlines(), dry.stderr, dry.returncode) == ([*plan, "nothing was changed"], "", 0)
    assert home("--version").stdout == f"blazar {__version__}\n"
    done = home("upgrade", **settings(index))
    assert done.stdout.splitlines() == [*plan, f"blazar is now {NEWER}; a running daemon keeps the old one until it is "
                                               f"restarted"], done.stderr
    assert home("--version").stdout == f"blazar {NEWER}\n"
    assert home("upgrade", **settings(index)).stdout == f"blazar {NEWER} is the newest\n"


def test_another_project_of_that_name_is_left_where_it_is(home, index):
    index.publish("blazar", NEWER, wheel(files=[("blazar/other.py", b"")], extras=["some"]))
    done = home("upgrade", **settings(index))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"blazar: could not upgrade: blazar {NEWER} of the package index is another project of that "
                           f"name; name the index that has this one, with `pip config set global.index-url URL`, or "
                           f"install its files with pip\n")
    assert home("--version").stdout == f"blazar {__version__}\n"


@pytest.mark.debian
def test_a_version_may_be_chosen(home, index):
    for version in ("0.0.9", NEWER):
        index.publish("blazar", version, wheel(version=version, files=this_package(version)))
    assert home("upgrade", "--version", "0.0.9", **settings(index)).returncode == 0
    assert home("--version").stdout == "blazar 0.0.9\n"


def test_a_file_that_is_not_what_the_index_says_changes_nothing(home, index):
    index.publish("blazar", NEWER, wheel(files=this_package(NEWER)), told="wrong")
    done = home("upgrade", **settings(index))
    assert done.returncode == 1 and "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert home("--version").stdout == f"blazar {__version__}\n"


def test_what_pip_cannot_find(home, index):
    index.publish("blazar", "0.0.9", wheel(version="0.0.9"))
    done = home("upgrade", "--version", "7.7", **settings(index))
    assert done.returncode == 1 and done.stderr.startswith("blazar: could not upgrade: pip finds no blazar==7.7: ")
    assert done.stderr.endswith("see that this machine reaches the package index of `pip config list`\n")
    odd = home("upgrade", "--version", "1; rm -rf", **settings(index))
    assert (odd.returncode, odd.stderr) == (2, f"blazar: '1; rm -rf' is no version; one looks like {__version__}\n")


@pytest.mark.parametrize("has_egg_info", [False, True])
def test_a_checkout_is_for_git(tmp_path, has_egg_info):
    """An editable installation leaves an egg-info in the checkout, which need not tell who installed it."""
    checkout = tmp_path / "checkout"
    shutil.copytree(PACKAGE, checkout / "blazar", ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "pyproject.toml").touch()
    if has_egg_info:
        (checkout / "blazar.egg-info").mkdir()
        (checkout / "blazar.egg-info" / "PKG-INFO").write_text(f"Name: blazar\nVersion: {__version__}\n")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(checkout)}
    done = subprocess.run([sys.executable, "-m", "blazar.cli.main", "upgrade", "--dry-run"], env=env, cwd=tmp_path,
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, f"blazar: this Blazar is not upgraded by itself: it runs from the "
                                                 f"checkout {checkout}; `git pull` there does it\n")


def test_a_file_of_the_system_is_for_apt(home, tmp_path):
    """A dpkg that owns our files, played by a script: the real one has no Blazar yet."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dpkg").write_text('#!/bin/sh\necho "blazar: $2"\n')
    (tmp_path / "bin" / "dpkg").chmod(0o755)
    done = home("upgrade", PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert done.stderr == ("blazar: this Blazar is not upgraded by itself: it comes from the system's package blazar; "
                           "`sudo apt-get update && sudo apt-get install --only-upgrade blazar` does it\n")


@pytest.mark.debian
def test_packages_of_an_extra_in_use_come_along(home, index, tmp_path):
    """The new version needs another engine wheel; the report of pip names it with its hash."""
    site = next((tmp_path / "env").glob("lib/python3*/site-packages"))
    metadata = site / f"blazar-{__version__}.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + "Requires-Dist: somewheel==1.0; extra == 'some'\nProvides-Extra: other\n"
                                               "Requires-Dist: otherwheel; extra == 'other'\n")
    (site / "somewheel-1.0.dist-info").mkdir()
    (site / "somewheel-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: somewheel\n"
                                                               "Version: 1.0\n")
    (site / "somewheel-1.0.dist-info" / "RECORD").write_text("somewheel-1.0.dist-info/METADATA,,\n"
                                                             "somewheel-1.0.dist-info/RECORD,,\n")
    index.publish("somewheel", "2.0", wheel("somewheel", "2.0"))
    needs = ["somewheel==2.0; extra == 'some'"]
    index.publish("blazar", NEWER, wheel(files=this_package(NEWER), requires=needs))
    done = home("upgrade", **settings(index))
    assert done.returncode == 0, done.stderr
    assert [line.split()[:2] for line in done.stdout.splitlines()[1:3]] == [["somewheel", "2.0"], ["blazar", NEWER]]
    assert (site / "somewheel-2.0.dist-info").is_dir()
