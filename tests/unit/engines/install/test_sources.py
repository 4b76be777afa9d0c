"""Where the source comes from, with real git and real archives."""

import os
import subprocess

import pytest

from blazar.engines.install.sources import default_url, local, remote
from blazar.errors import ArchiveRefused, BuildFailed, UsageRefused
from tests.support.engine_builds import tar
from tests.support.needs import need
from tests.support.small_tree import repository, small_tree

ENV = {name: os.environ[name] for name in ("PATH",)}


@pytest.fixture
def git():
    need("git")


@pytest.fixture
def tree(tmp_path):
    return small_tree(tmp_path / "tree")


def test_a_folder_is_built_where_it_lies(tree, tmp_path):
    source = local(tree, "b77", ENV)
    assert (source.number, source.commit, source.origin) == (77, "unknown", str(tree))
    assert source.fetch(tmp_path / "work", ENV) == tree and not (tmp_path / "work").exists()


def test_a_folder_may_tell_by_its_name_which_build_it_is(tmp_path):
    assert local(small_tree(tmp_path / "llama.cpp-b123"), None, ENV).number == 123


def test_a_folder_that_does_not_tell_needs_a_tag(tree):
    with pytest.raises(UsageRefused, match=r"which build .*/tree is cannot be told from it; say it with `--tag bNNNN`"):
        local(tree, None, ENV)
    with pytest.raises(UsageRefused, match=r"v1 is not a tag of llama.cpp; they look like b11434"):
        local(tree, "v1", ENV)


def test_what_is_no_tree_is_refused(tmp_path):
    with pytest.raises(UsageRefused, match=r"has no CMakeLists\.txt"):
        local(tmp_path, "b1", ENV)


def test_a_checkout_tells_its_tag_or_counts_its_commits(git, tree):
    repository(tree, "b41", "b42")
    source = local(tree, None, ENV)
    assert source.number == 42 and len(source.commit) >= 7 and source.origin == f"{tree} at {source.commit}"
    (tree / "more").write_text("x")
    for words in (["add", "."], ["commit", "-qm", "more"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", str(tree), *words], check=True)
    assert local(tree, None, ENV).number == 3


def test_a_folder_inside_somebody_elses_repository_is_none(git, tmp_path):
    (tmp_path / "outer").mkdir()
    inner = small_tree(tmp_path / "outer" / "inner")
    repository(tmp_path / "outer", "b9")
    with pytest.raises(UsageRefused, match="cannot be told"):
        local(inner, None, ENV)


def test_an_archive_is_unpacked(tree, tmp_path):
    files = {f"llama.cpp-b88/{path.name}": path.read_bytes() for path in tree.iterdir()}
    archive = tmp_path / "llama.cpp-b88.tar.gz"
    archive.write_bytes(tar(files))
    source = local(archive, None, ENV)
    assert (source.number, source.origin) == (88, str(archive))
    (tmp_path / "work").mkdir()
    got = source.fetch(tmp_path / "work", ENV)
    assert got == tmp_path / "work" / "source" / "llama.cpp-b88"
    assert (got / "tool.cpp").read_bytes() == (tree / "tool.cpp").read_bytes()


def test_a_hostile_archive_is_refused(tmp_path):
    (tmp_path / "b1.tar.gz").write_bytes(tar({"../out": b"x"}))
    (tmp_path / "work").mkdir()
    with pytest.raises(ArchiveRefused):
        local(tmp_path / "b1.tar.gz", None, ENV).fetch(tmp_path / "work", ENV)
    assert not (tmp_path / "out").exists()


def test_the_newest_tag_of_a_repository(git, tree, tmp_path):
    url = repository(tree, "b9", "b11", "b10", "v3", "bad")
    assert remote(url, None, ENV).number == 11
    source = remote(url, "b10", ENV)
    assert source.number == 10 and source.origin == f"{url} b10 at {source.commit}"
    (tmp_path / "work").mkdir()
    got = source.fetch(tmp_path / "work", ENV)
    assert (got / "tag.txt").read_text() == "b10"
    head = subprocess.run(["git", "-C", got, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert head.startswith(source.commit)


def test_what_a_repository_cannot_give(git, tree, tmp_path):
    url = repository(tree, "b9")
    with pytest.raises(UsageRefused, match="has no tag b10"):
        remote(url, "b10", ENV)
    with pytest.raises(BuildFailed, match=r"git does not reach file:///no/such: .*name a folder with `--source`"):
        remote("file:///no/such", None, ENV)
    with pytest.raises(BuildFailed, match="git, which fetches the source, is not on PATH"):
        remote(url, None, {"PATH": str(tmp_path)})
    with pytest.raises(BuildFailed, match="git does not reach"):
        remote("ext::sh -c touch% " + str(tmp_path / "owned"), None, ENV)
    assert not (tmp_path / "owned").exists()


def test_the_usual_repository():
    assert default_url({}) == "https://github.com/ggml-org/llama.cpp"
    assert default_url({"BLAZAR_REPO": "me/llama"}) == "https://github.com/me/llama"
