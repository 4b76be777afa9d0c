"""Where the source of an engine comes from: a folder of this machine, or a tag of a git repository.

git is a program beside us: the person's own proxies and certificates decide how it is reached, and git itself checks
every object that arrives against its hash.
"""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blazar.engines import oneshot
from blazar.engines.install.archive import extract
from blazar.engines.install.release import REPO
from blazar.errors import BuildFailed, UsageRefused
from blazar.store.locks import told_in_words

TAG = re.compile(r"b(\d{1,9})")
"""Upstream's tags: `b` and the number of the build."""

GIT_VARIABLES = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY",
                 "GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_CEILING_DIRECTORIES", "SSH_AUTH_SOCK", "XDG_CONFIG_HOME")


@dataclass(frozen=True)
class Source:
    """A source tree whose build number is known."""

    number: int
    commit: str
    """What the build says of itself; `unknown` outside git."""
    origin: str
    """For people."""
    place: Path | None = None
    """The folder or the archive; None = it has to be cloned from `url`."""
    url: str = ""

    def fetch(self, work: Path, env: Mapping[str, str]) -> Path:
        """The folder of the tree; what is no folder yet becomes one in `work`. Raises BuildFailed, ArchiveRefused."""
        target = work / "source"
        if self.place is not None:
            return _unpacked(self.place, target) if self.place.is_file() else self.place
        finished = _git(["-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1", "--branch",
                         f"b{self.number}", "--", self.url, str(target)], env)
        if finished.code != 0:
            raise BuildFailed(tag=f"b{self.number}",
                              reason=f"git could not clone {self.url}: {finished.ending}",
                              remedy="see that this machine reaches it, or name a folder with `--source`")
        return target


def local(place: Path, tag: str | None, env: Mapping[str, str]) -> Source:
    """The tree in the folder or archive `place`: `tag` says which build it is, else its git history, else its name.

    Raises UsageRefused.
    """
    tree = place.expanduser().absolute()
    is_archive = tree.is_file()
    if not is_archive and not (tree / "CMakeLists.txt").is_file():
        raise UsageRefused(f"{tree} is no source tree of llama.cpp: it has no CMakeLists.txt")
    named = re.search(r"\bb(\d{1,9})\b", tree.name)
    number = _number(tag) if tag else None if is_archive else _number_by_git(tree, env)
    number = int(named[1]) if number is None and named else number
    if number is None:
        raise UsageRefused(f"which build {tree} is cannot be told from it; say it with `--tag bNNNN`")
    if is_archive:
        return Source(number, "unknown", str(tree), tree)
    commit = _git_said(["rev-parse", "--short", "HEAD"], env, tree)
    return Source(number, commit or "unknown", f"{tree}{f' at {commit}' if commit else ''}", tree)


def remote(url: str, tag: str | None, env: Mapping[str, str]) -> Source:
    """The tag of the repository at `url`, the newest without one. Raises BuildFailed or UsageRefused."""
    if tag:
        _number(tag)
    if shutil.which("git", path=env.get("PATH")) is None:
        raise BuildFailed(tag=tag or "the newest tag", reason="git, which fetches the source, is not on PATH",
                          remedy="`apt-get install git`, or name a folder with `--source`")
    finished = _git(["ls-remote", "--tags", "--refs", "--", url, f"refs/tags/{tag or 'b*'}"], env)
    if finished.code != 0:
        raise BuildFailed(tag=tag or "the newest tag", reason=f"git does not reach {url}: {finished.ending}",
                          remedy="see that this machine reaches it, or name a folder with `--source`")
    found = {int(number): commit for commit, number in
             re.findall(r"^([0-9a-f]{40,64})\trefs/tags/b(\d{1,9})$", finished.output, re.MULTILINE)}
    if not found:
        raise UsageRefused(f"{url} has no tag {tag or 'of the form bNNNN'}")
    number = max(found)
    return Source(number, found[number][:9], f"{url} b{number} at {found[number][:9]}", url=url)


def _unpacked(archive: Path, target: Path) -> Path:
    """The tree in the archive: itself, or the one folder in which such archives hold it."""
    with told_in_words(target):
        target.mkdir()
        extract(archive, target, lambda stage, done, total: None)
    tops = [target, *(folder for folder in target.iterdir() if folder.is_dir())]
    tree = next((folder for folder in tops if (folder / "CMakeLists.txt").is_file()), None)
    if tree is None:
        raise UsageRefused(f"{archive} holds no source tree of llama.cpp: there is no CMakeLists.txt at its top")
    return tree


def _number(tag: str) -> int:
    found = TAG.fullmatch(tag)
    if found is None:
        raise UsageRefused(f"{tag} is not a tag of llama.cpp; they look like b11434")
    return int(found[1])


def _number_by_git(tree: Path, env: Mapping[str, str]) -> int | None:
    """From the tag of what is checked out, else the number of commits, which is what upstream counts."""
    tag = TAG.fullmatch(_git_said(["describe", "--tags", "--exact-match", "--match", "b[0-9]*"], env, tree))
    if tag:
        return int(tag[1])
    is_whole = _git_said(["rev-parse", "--is-shallow-repository"], env, tree) == "false"
    count = _git_said(["rev-list", "--count", "HEAD"], env, tree) if is_whole else ""
    return int(count) if count.isdecimal() else None


def _git_said(words: list[str], env: Mapping[str, str], tree: Path) -> str:
    """What git says of the repository whose top is `tree`; nothing when it is none, or there is no git."""
    try:
        finished = _git(["-C", str(tree), *words], {**env, "GIT_CEILING_DIRECTORIES": str(tree.parent)})
    except OSError:
        return ""
    return finished.output.strip() if finished.code == 0 else ""


def _git(words: list[str], env: Mapping[str, str]) -> oneshot.Finished:
    return oneshot.run(["git", *words], {**oneshot.kept(env, *GIT_VARIABLES), "GIT_TERMINAL_PROMPT": "0",
                                         "LC_ALL": "C"})


def default_url(env: Mapping[str, str]) -> str:
    """The git repository of the releases, which BLAZAR_REPO names."""
    return f"https://github.com/{env.get('BLAZAR_REPO') or REPO}"


def available_jobs() -> int:
    """How many compilers may run at once: one for each usable core that has a gibibyte of free memory."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(1, min(len(os.sched_getaffinity(0)), free >> 30))
