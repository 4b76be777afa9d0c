"""Releases read from a server in GitHub's shape, right and wrong."""

import dataclasses
import hashlib

import pytest

from blazar.engines.install.release import Releases, build_number
from blazar.errors import ReleaseNotFound, ReleasesUnreachable
from tests.servers.file_server import Reply
from tests.servers.releases import REPO, ReleaseServer, rate_limited


@pytest.fixture
def server():
    with ReleaseServer() as server:
        yield server


def test_the_newest_first_by_number_and_drafts_not_at_all(server):
    for tag in ("b99", "b101", "b100"):
        server.release(tag, {"cpu": b"1"})
    server.release("b102", {"cpu": b"1"})
    server.releases[0]["draft"] = True
    assert [release.tag for release in Releases(server.base).newest()] == ["b101", "b100", "b99"]
    assert server.questions() == ["?per_page=20"]


def test_an_asset_as_the_api_tells_it(server):
    server.release("b1", {"cpu": b"archive", "vulkan": b"other"})
    plain, vulkan = Releases(server.base).of_tag("b1").assets
    assert plain.name == "llama-b1-bin-ubuntu-x64.tar.gz" and vulkan.name == "llama-b1-bin-ubuntu-vulkan-x64.tar.gz"
    assert (plain.size, plain.sha256) == (7, hashlib.sha256(b"archive").hexdigest())
    assert plain.url == server.url(f"/{REPO}/releases/download/b1/{plain.name}")


def test_other_repositories_and_places_for_files():
    with ReleaseServer(repo="me/fork") as server:
        server.release("b1", {"cpu": b"1"})
        releases = Releases.configured({"BLAZAR_GH_BASE": server.base + "/", "BLAZAR_REPO": "me/fork",
                                        "BLAZAR_INSTALL_BASE_URL": "https://mirror.example/llama/"})
        assert releases.of_tag("b1").assets[0].url == "https://mirror.example/llama/b1/llama-b1-bin-ubuntu-x64.tar.gz"
    assert Releases.configured({}).repo == "ggml-org/llama.cpp"


def test_a_stable_release_stamps_a_build(server):
    server.release("b10", {"cpu": b"1"})
    assert Releases(server.base).stable() is None
    server.stable("v0.6.0", "b10")
    stable = Releases(server.base).stable()
    assert (stable.tag, stable.marker) == ("b10", "v0.6.0")
    assert Releases(server.base).of_tag("v0.6.0").tag == "b10"


def test_a_stable_release_with_files_of_its_own(server):
    server.release("b10", {"cpu": b"1"}, prerelease=False)
    stable = Releases(server.base).stable()
    assert (stable.tag, stable.marker) == ("b10", None)


@pytest.mark.parametrize("pointer", ["", "../../etc", "v0.6.0", "b1\nb2", "x" * 150])
def test_a_stamp_that_names_nothing(server, pointer):
    server.stable("v0.6.0", pointer)
    with pytest.raises(ReleasesUnreachable, match="it names no build"):
        Releases(server.base).stable()


def test_checksums_beside_the_files(server):
    server.release("b1", {"cpu": b"archive", "vulkan": b"other"}, digest="sums")
    releases = Releases(server.base)
    release = releases.of_tag("b1")
    assert [releases.checksum(release, asset) for asset in release.assets[:2]] == [
        hashlib.sha256(b"archive").hexdigest(), hashlib.sha256(b"other").hexdigest()]
    server.release("b2", {"cpu": b"archive"}, digest="missing")
    release = releases.of_tag("b2")
    assert releases.checksum(release, release.assets[0]) is None


@pytest.mark.parametrize("tag", ["b2", "../b1", "", "b1?x", "x" * 80])
def test_a_tag_that_is_not_there(server, tag):
    server.release("b1", {"cpu": b"1"})
    with pytest.raises(ReleaseNotFound) as refused:
        Releases(server.base).of_tag(tag)
    assert refused.value.message == (f"there is no engine release {tag} of {REPO}; `blazar engine check` tells the "
                                     "newest")


@pytest.mark.parametrize(("fault", "words"), [
    (rate_limited(1800), r"too many questions came from this address \(403\), it answers again in \d+ m"),
    (Reply(429, b"", {"Retry-After": "90"}), r"too many questions came from this address \(429\), .* in 1 m 30 s"),
    (Reply(403, b""), "the server answered 403 Forbidden"),
    (Reply(500, b""), "the server answered 500"),
    (Reply(200, b"<html>"), "the answer is not JSON"),
    (Reply(200, b"{}"), "the answer is no list of releases"),
    (Reply(200, b"[" * 100_000), "the answer is not JSON"),
    (Reply(200, b"[]", announced=100), "ended after 2 of 100 bytes|IncompleteRead"),
    (Reply(200, b" " * (9 << 20)), r"the answer is over 8\.0 MiB"),
    (Reply(302, b"", {"Location": "ftp://example.com/"}), "unknown url type: ftp"),
])
def test_answers_that_are_none(server, fault, words):
    server.fault = fault
    with pytest.raises(ReleasesUnreachable, match=words) as refused:
        Releases(server.base).newest()
    assert refused.value.message.endswith("; what is installed stays as it is, try again later")


def test_a_repository_that_is_not_there(server):
    with pytest.raises(ReleasesUnreachable, match="the server knows no repository me/typo; what is installed stays"):
        Releases(server.base, "me/typo").newest()


def test_nobody_there():
    with pytest.raises(ReleasesUnreachable, match="Connection refused"):
        Releases("http://127.0.0.1:9").newest()


def test_odd_entries_are_passed_over(server):
    server.release("b1", {"cpu": b"1"})
    server.releases[0]["assets"] += [None, {}, {"name": "../../x", "browser_download_url": "http://x"},
                                     {"name": "ok.txt", "browser_download_url": 7},
                                     {"name": "odd.txt", "browser_download_url": "http://x", "size": "big",
                                      "digest": "md5:1"},
                                     {"name": "huge.txt", "browser_download_url": "http://x", "size": 10**30}]
    server.releases[0]["assets"] += [
        {"name": "a.txt", "browser_download_url": url}
        for url in ("http://[", "http://x:999999/", "file:///etc/passwd", "ftp://x/y", "", "//x", "http://",
                    "http://a b/", "http://x/\ud800")]
    server.releases += [7, {"tag_name": "../up", "assets": []}, {"tag_name": "b2"}]
    (release,) = Releases(server.base).newest()
    assert [(asset.name, asset.sha256) for asset in release.assets][1:] == [("odd.txt", None), ("huge.txt", None)]
    assert [asset.size for asset in release.assets][1:] == [None, None]


def test_build_numbers():
    assert [build_number(tag) for tag in ("b11434", "b11434-cpu", "embedded-2026.10.11549", "v0.6.0", "local", "b1x")] \
        == [11434, 11434, 11549, None, None, None]


def answering(server, status, body=b"", **headers):
    """Let every question get this."""
    server.fault = Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})
    return Releases(server.base)


@pytest.mark.parametrize("headers", [
    {"Retry_After": "\xb2"}, {"Retry_After": "9" * 5000}, {"Retry_After": "-1"},
    {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "9" * 400},
    {"X_RateLimit_Remaining": "0", "X_RateLimit_Reset": "\xb3"}])
def test_pauses_that_are_none(server, headers):
    with pytest.raises(ReleasesUnreachable, match=r"\(?403\)?"):
        answering(server, 403, **headers).newest()


@pytest.mark.parametrize("place", ["http://[bad", "file:///etc/passwd", "http://x:99999/", "http://a\0b/", "ftp://x/"])
def test_redirects_to_what_is_no_address(server, place):
    with pytest.raises(ReleasesUnreachable):
        answering(server, 302, Location=place).newest()


@pytest.mark.parametrize(("told", "size"), [
    ({"size": 10 ** 400}, None), ({"size": True}, None), ({"size": 1 << 60}, None), ({"size": 7}, 7)])
def test_sizes_that_no_file_has(server, told, size):
    server.release("b1", {"cpu": b"archive"})
    server.releases[0]["assets"][0].update(told)
    assert Releases(server.base).of_tag("b1").assets[0].size == size


@pytest.mark.parametrize("url", ["http://[x", "\ud800", "file:///etc/passwd", "http://a\x1b[2J/x", "http:///x", 5, "x",
                                 "http://x:99999/", "http://h/" + "x" * 3000])
def test_assets_without_an_address_are_left_out(server, url):
    server.release("b1", {"cpu": b"archive"})
    server.releases[0]["assets"][0]["browser_download_url"] = url
    assert Releases(server.base).of_tag("b1").assets == ()


def test_stamps_in_a_circle_end(server):
    server.stable("v1", "v2")
    server.stable("v2", "v1")
    assert Releases(server.base).of_tag("v1").tag == "v2"
    assert len(server.requests) < 5


def test_a_thousand_lists_of_checksums_are_not_read(server):
    server.release("b1", {"cpu": b"archive"}, digest="sums")
    server.releases[0]["assets"] += [server.releases[0]["assets"][-1]] * 1000
    releases = Releases(server.base)
    release = releases.of_tag("b1")
    assert releases.checksum(release, release.assets[0])
    release = releases.of_tag("b1")
    releases.checksum(release, dataclasses.replace(release.assets[0], name="other"))
    assert len(server.requests) < 8
