"""Replace this Blazar by a newer one, where pip installed it: pip resolves and installs, every file by its sha256.

What apt or git looks after is left to them. pip runs as a program, so the person's own index, proxies and
certificates are used.
"""

import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from blazar import __version__
from blazar.download import pip
from blazar.engines import oneshot
from blazar.errors import UpgradeFailed, UpgradeRefused, UsageRefused
from blazar.paths import package_home
from blazar.store.scratch import scratch

NAME = "blazar"
MARK = "llama"
"""An extra that this project has, by which it is told apart from others of its name."""
GRACE = 30.0
"""Seconds that an interrupted pip gets to put the old files back."""

_VERSION = re.compile(r"[0-9][0-9A-Za-z.!+-]{0,60}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Package:
    """One file that pip would install."""

    name: str
    version: str
    file: str
    sha256: str


@dataclass(frozen=True)
class Plan:
    """What an upgrade does; `packages` is empty when this is the newest."""

    packages: tuple[Package, ...]

    @property
    def version(self) -> str:
        """The version that Blazar has afterwards."""
        return next((package.version for package in self.packages if package.name == NAME), __version__)

    def lines(self) -> list[str]:
        """The plan for a person."""
        return [f"blazar {__version__} -> {self.version}",
                *(f"  {package.name} {package.version}  {package.file}  sha256 {package.sha256}"
                  for package in self.packages)]

    def requirements(self) -> str:
        """What pip is given: exactly these files and no others."""
        return "".join(f"{package.name}=={package.version} --hash=sha256:{package.sha256}\n"
                       for package in self.packages)


def plan(version: str | None = None, env: Mapping[str, str] = os.environ) -> Plan:
    """Ask pip what an upgrade to `version`, or to the newest one, would install. Changes nothing.

    Raises UpgradeRefused when something else than pip looks after this Blazar, UpgradeFailed with pip's words.
    """
    if version is not None and not _VERSION.fullmatch(version):
        raise UsageRefused(f"{version[:60]!r} is no version; one looks like {__version__}")
    extras = _extras(_by_pip(env))
    wanted = NAME + (f"[{','.join(extras)}]" if extras else "") + (f"=={version}" if version else "")
    finished = _pip(["install", "--dry-run", "--quiet", "--upgrade", "--report", "-", wanted], env)
    if finished.code != 0:
        raise UpgradeFailed(reason=f"pip finds no {wanted}: {_words(finished)}",
                            remedy="see that this machine reaches the package index of `pip config list`")
    try:
        packages = tuple(_package(entry) for entry in json.loads(finished.output)["install"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UpgradeFailed(reason=f"the report of pip is not understood ({error})",
                            remedy="a newer pip may help: `pip install --upgrade pip`") from error
    return Plan(packages if any(package.name == NAME for package in packages) else ())


def carry_out(plan: Plan, env: Mapping[str, str] = os.environ) -> None:
    """Install the plan's files, each checked against its sha256. Raises UpgradeFailed; then the old one stays."""
    with scratch("upgrade") as folder:
        requirements = folder / "requirements.txt"
        requirements.write_text(plan.requirements())
        finished = _pip(["install", "--quiet", "--no-deps", "--require-hashes", "-r", str(requirements)], env, GRACE)
    if finished.code != 0:
        raise UpgradeFailed(reason=f"pip could not install it: {_words(finished)}",
                            remedy=f"blazar {__version__} stays")
    code = f"from importlib.metadata import version; print(version({NAME!r}))"
    found = oneshot.run([sys.executable, "-P", "-c", code], pip.environment(env), cwd=Path("/")).output.strip()
    if found != plan.version:
        raise UpgradeFailed(reason=f"after pip was done this is blazar {found or 'no more'}, not {plan.version}",
                            remedy=f"`{sys.executable} -m pip install --force-reinstall {NAME}=={plan.version}`")


def _by_pip(env: Mapping[str, str]) -> Distribution:
    """This installation, when pip looks after it; else UpgradeRefused says who does."""
    module = package_home() / NAME / "__init__.py"
    package = _debian_package(module, env)
    if package:
        raise UpgradeRefused(reason=f"it comes from the system's package {package}",
                             remedy=f"`sudo apt-get update && sudo apt-get install --only-upgrade {package}` does it")
    checkout = UpgradeRefused(reason=f"it runs from the checkout {package_home()}", remedy="`git pull` there does it")
    if (package_home() / "pyproject.toml").exists():  # there may be an egg-info of it, which looks like pip's work
        raise checkout
    try:
        installed = distribution(NAME)
    except PackageNotFoundError:
        raise checkout from None
    direct = json.loads(installed.read_text("direct_url.json") or "{}")
    place = Path(str(installed.locate_file(NAME)))
    if direct.get("dir_info", {}).get("editable") or place.resolve() != module.parent.resolve():
        raise checkout
    installer = (installed.read_text("INSTALLER") or "").strip() or "something unknown"
    if importlib.util.find_spec("pip") is None:
        by_uv = f"`uv pip install --upgrade {NAME}` does it"
        raise UpgradeRefused(reason=f"{installer} installed it, and {sys.executable} has no pip",
                             remedy=by_uv if installer == "uv" else f"upgrade it with {installer}")
    return installed


def _debian_package(file: Path, env: Mapping[str, str]) -> str | None:
    """The package that owns `file`, as dpkg knows it."""
    dpkg = shutil.which("dpkg", path=env.get("PATH"))
    if dpkg is None:
        return None
    finished = oneshot.run([dpkg, "-S", str(file.resolve())], oneshot.kept(env))
    return finished.output.partition(":")[0].strip() or None if finished.code == 0 else None


def _extras(installed: Distribution) -> list[str]:
    """The extras that are in use: those all of whose packages are here."""
    needs: dict[str, set[str]] = {}
    for line in installed.requires or ():
        found = re.fullmatch(r"([A-Za-z0-9._-]+).*?;\s*extra\s*==\s*['\"]([\w-]+)['\"]\s*", line)
        if found:
            needs.setdefault(found[2], set()).add(found[1])
    return sorted(extra for extra, names in needs.items() if all(_is_here(name) for name in names))


def _is_here(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _package(entry: Mapping[str, Any]) -> Package:
    """One entry of pip's report. Raises UpgradeFailed for a file without a sha256, and for a namesake of ours."""
    name, version = entry["metadata"]["name"], entry["metadata"]["version"]
    if name == NAME and MARK not in entry["metadata"].get("provides_extra", ()):
        raise UpgradeFailed(reason=f"{name} {version} of the package index is another project of that name",
                            remedy="name the index that has this one, with `pip config set global.index-url URL`, or "
                                   "install its files with pip")
    info = entry["download_info"]
    archive = info.get("archive_info", {})
    older = str(archive.get("hash", "")).removeprefix("sha256=")
    sha256 = str(archive.get("hashes", {}).get("sha256") or older)
    if not _SHA256.fullmatch(sha256):
        raise UpgradeFailed(reason=f"the package index tells no sha256 of {name} {version}",
                            remedy="use an index that does")
    file = unquote(urlsplit(info["url"]).path).rpartition("/")[2]
    return Package(re.sub(r"[-_.]+", "-", name).lower(), version, file, sha256)


def _pip(words: list[str], env: Mapping[str, str], grace: float = 0.0) -> oneshot.Finished:
    command = [sys.executable, "-P", "-m", "pip", words[0], "--no-input", "--disable-pip-version-check", *words[1:]]
    return oneshot.run(command, pip.environment(env), cwd=Path("/"), grace=grace)


def _words(finished: oneshot.Finished) -> str:
    """The errors that pip printed, else how it ended."""
    errors = [line.strip().removeprefix("ERROR: ") for line in finished.said.splitlines() if "ERROR:" in line]
    return " / ".join(errors[-2:])[:600] or finished.ending
