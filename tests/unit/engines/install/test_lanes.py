"""The catalog of lanes: read strictly, whole or not at all."""

import json
import socket

import pytest

from blazar.engines.install.lanes import MOST_BYTES, parse, read_catalog
from blazar.errors import CatalogRefused
from tests.servers.file_server import FileServer, Reply

URL = "http://127.0.0.1:1/lanes/catalog.json"
ASSET = {"flavour": "cpu", "machine": "x86_64", "url": "one.tar.gz", "sha256": "a" * 64, "size": 10}
LANE = {"name": "one", "summary": "for One models", "architectures": ["one", "one-moe"], "assets": [ASSET],
        "superseded": {"one": 11600}}


def text(*lanes, **top):
    return json.dumps({"format": 1, "lanes": list(lanes), **top}).encode()


def test_a_catalog_is_read():
    [lane] = parse(text(LANE), URL)
    assert (lane.name, lane.architectures, lane.superseded) == ("one", ("one", "one-moe"), {"one": 11600})
    assert lane.assets[0].url == "http://127.0.0.1:1/lanes/one.tar.gz"
    assert lane.to_dict() == {**LANE, "assets": ({**ASSET, "url": lane.assets[0].url},)}
    assert parse(text(), URL) == []
    assert parse(text({**LANE, "assets": [{**ASSET, "url": "https://other/x"}]}), URL)[0].assets[0].url == "https://other/x"


@pytest.mark.parametrize(("document", "reason"), [
    (b"<html>", "it is not JSON"), (b"[" * 100_000, "it is not JSON"), (b"\xff\xfe", "it is not JSON"),
    (b"[]", "the document is not an object"),
    (text(extra=1), "the document must have exactly format, lanes"),
    (text(format=2), "its format is '2' and this Blazar reads 1"),
    (text(lanes={}), "lanes is not a list of at most 200"),
    (text(*[LANE] * 201), "lanes is not a list of at most 200"),
    (text(LANE, LANE), "two of its lanes have the same name"),
    (text({**LANE, "more": 1}), "lane 1 must have exactly name, summary, architectures, assets, superseded"),
    (text({**LANE, "name": "../up"}), "the name of lane 1 is '../up'"),
    (text({**LANE, "name": "One"}), "the name of lane 1 is 'One'"),
    (text({**LANE, "summary": "\x1b[2J"}), "the summary of one has characters that are not to be seen"),
    (text({**LANE, "summary": "half \ud83d"}), "the summary of one has characters that are not to be seen"),
    (text({**LANE, "summary": "a\u202eb"}), "the summary of one has characters that are not to be seen"),
    (text({**LANE, "summary": ""}), "the summary of one is ''"),
    (text({**LANE, "name": "\ud800"}), "the name of lane 1"),
    (text({**LANE, "architectures": []}), "one has no architecture"),
    (text({**LANE, "architectures": ["a b"]}), "an architecture of one is 'a b'"),
    (text({**LANE, "superseded": {"two": 1}}), "superseded of one names other architectures than its own"),
    (text({**LANE, "superseded": {"one": "b7"}}), "superseded of one is not a whole number up to"),
    (text({**LANE, "superseded": {"one": True}}), "superseded of one is not a whole number up to"),
    (text({**LANE, "assets": [{**ASSET, "sha256": "A" * 64}]}), "a sha256 of one is"),
    (text({**LANE, "assets": [{**ASSET, "size": 0}]}), "a size of one is not a whole number up to"),
    (text({**LANE, "assets": [{**ASSET, "size": 1e3}]}), "a size of one is not a whole number up to"),
    (text({**LANE, "assets": [{**ASSET, "url": "file:///etc/passwd"}]}), "an url of one is no address of a web server: 'file:///etc/passwd'"),
    (text({**LANE, "assets": [{**ASSET, "url": 7}]}), "an url of one is '7'"),
    (text({**LANE, "assets": [{**ASSET, "url": ""}]}), "an url of one is ''"),
    (text({**LANE, "assets": [{**ASSET, "url": "http://["}]}), "an url of one is no address of a web server: 'http://['"),
    (text({**LANE, "assets": [{**ASSET, "url": "http://host:99999999/x"}]}), "an url of one is no address"),
    (text({**LANE, "assets": [{**ASSET, "url": "http://a b/\n"}]}), "an url of one is"),
    (text({**LANE, "assets": [{**ASSET, "url": "\ud800"}]}), "an url of one is"),
    (text({**LANE, "assets": [{**ASSET, "url": "x" * 2001}]}), "an url of one is"),
    (text({**LANE, "assets": [{**ASSET, "machine": ""}]}), "a machine of one is ''")])
def test_anything_else_refuses_all_of_it(document, reason):
    with pytest.raises(CatalogRefused) as told:
        parse(document, URL)
    assert f"the catalog of engine lanes at {URL} is not used: {reason}" in str(told.value)
    assert str(told.value).endswith("; see `capability_registry_url`")


@pytest.mark.parametrize(("reply", "reason"), [
    (Reply(404, b"no"), "the server answered 404 Not Found"),
    (Reply(200, b" " * (MOST_BYTES + 1)), "the answer is over 1.0 MiB"),
    (Reply(200, text(LANE), announced=100_000), "the answer ended after 301 of 100000 bytes"),
    (Reply(302, headers={"Location": "file:///etc/passwd"}), "the server answered 302 .* is not allowed")])
def test_what_servers_do(reply, reason):
    with FileServer() as server:
        server.on("/c", lambda seen: reply)
        with pytest.raises(CatalogRefused, match=reason):
            read_catalog(server.url("/c"))


def test_a_server_that_is_not_there():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(CatalogRefused, match="refused"):
            read_catalog(f"http://127.0.0.1:{unused.getsockname()[1]}/c")


@pytest.mark.parametrize("url", ["http://[x", "http://\ud800/", "http://a\x1b[2J/x", "http://x:99999/", "http://h/\0",
                                 "file:///etc/passwd", "http://h/" + "x" * 3000])
def test_addresses_that_are_none_refuse_it(url):
    with pytest.raises(CatalogRefused, match="an url of one"):
        parse(text({**LANE, "assets": [{**ASSET, "url": url}]}), URL)


@pytest.mark.parametrize("summary", ["\ud800", "a\x1b[2Jb", "a\u202eb", "a\u2028b", "", "x" * 201])
def test_summaries_that_are_no_line_refuse_it(summary):
    with pytest.raises(CatalogRefused, match="the summary of"):
        parse(text({**LANE, "summary": summary}), URL)


@pytest.mark.parametrize("headers", [{"Location": "http://[bad"}, {"Location": "ftp://x/"},
                                     {"Retry-After": "9" * 5000}])
def test_headers_that_make_no_sense(headers):
    with FileServer() as server:
        server.on("/c", lambda seen: Reply(302 if "Location" in headers else 429, b"", headers))
        with pytest.raises(CatalogRefused):
            read_catalog(server.url("/c"))
