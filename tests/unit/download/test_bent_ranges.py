"""Servers that bend the rules of ranges: the file is right, or there is none and the reason is told.

Every case is met with one stream and with eight connections, by a download that knows the sha256 and by one that
does not, and therefore has nothing but the server's headers to find out that something is wrong.
"""

from dataclasses import dataclass

import pytest

from blazar.download.fetch import Source, fetch
from blazar.errors import DigestMismatch, DownloadFailed
from tests.servers.file_server import FileServer
from tests.support.downloads import MIB, content, leave_partial, names, sha256

ETAG = '"v1"'


@dataclass
class Case:
    """A server with one file, and a partial of it on the disk."""

    server: FileServer
    folder: object
    connections: int
    size: int
    kept: int
    knows: bool

    def __post_init__(self):
        self.content = content(self.size)
        self.file = self.server.put("/m.gguf", self.content, etag=ETAG)
        self.url = self.server.url("/m.gguf")
        self.target = self.folder / "m.gguf"
        self.leave(self.content[:self.kept])

    def leave(self, data, size=None, validator=ETAG):
        digest = sha256(self.content) if self.knows else None
        leave_partial(self.target, data, self.url, validator, size or self.size, [(0, len(data))], digest)

    def fetch(self):
        digest = sha256(self.file.content) if self.knows else None
        return fetch(Source(self.url, digest), self.target, connections=self.connections)

    def check(self):
        """The file is right, and alone."""
        fetched = self.fetch()
        assert (fetched.sha256, fetched.size) == (sha256(self.file.content), len(self.file.content))
        assert self.target.read_bytes() == self.file.content
        assert names(self.folder) == ["m.gguf"]

    @property
    def statuses(self):
        return [request.status for request in self.server.requests]


@pytest.fixture(params=["single", "eight"])
def shape(request):
    return (1, 64 * 1024, 20 * 1024) if request.param == "single" else (8, 33 * MIB, 5 * MIB)


@pytest.fixture(params=["sha256", "no-sha256"])
def case(request, shape, tmp_path):
    with FileServer() as server:
        yield Case(server, tmp_path, *shape, knows=request.param == "sha256")


def test_a_right_server_sends_only_what_is_missing(case):
    case.check()
    assert set(case.statuses) == {206}
    assert case.server.sent() == case.size - case.kept
    assert {request.headers["if-range"] for request in case.server.requests} == {ETAG}


@pytest.mark.parametrize("bend", ["whole", "none"])
def test_the_whole_file_instead_of_a_range(case, bend):
    case.file.ranges = bend
    case.check()
    assert case.server.requests[-1].range is None


@pytest.mark.parametrize("bend", ["whole as 206", "512 early", "512 late", "other size", "206 without a range"])
def test_another_range_than_was_asked_for(case, bend):
    case.file.ranges = bend
    case.check()


@pytest.mark.parametrize("bend", [
    "none", "whole as 206", "512 early", "512 late", "short", "other size", "206 without a range", "200 with a range",
    "refused", "first only"])
def test_every_bend_from_the_beginning(shape, tmp_path, bend):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=False)
        for path in tmp_path.iterdir():
            path.unlink()
        case.file.ranges = bend
        case.check()


def test_less_than_was_asked_for_and_told_so(case):
    case.file.ranges = "short"
    case.check()
    assert case.server.sent() == case.size - case.kept


def test_a_range_that_ends_early(case):
    case.file.cut_every, case.file.cuts = (case.size - case.kept) // 40, 3
    case.check()
    assert case.server.sent() == case.size - case.kept


def test_a_part_that_is_called_the_whole(case):
    case.file.ranges = "200 with a range"
    case.check()


def test_a_range_that_is_refused(case):
    case.file.ranges = "refused"
    case.check()
    assert case.statuses[0] == 416 and case.statuses[-1] == 200


def test_a_partial_that_is_complete_costs_a_byte_at_most(case):
    case.leave(case.content)
    case.check()
    assert case.server.sent() == (0 if case.knows else 1)
    assert len(case.server.requests) == case.server.sent()


def test_a_partial_that_is_complete_but_of_unknown_size(case):
    case.leave(case.content)
    state = case.target.with_name("m.gguf.part.json")
    state.write_text(state.read_text().replace(f'"size": {case.size}', '"size": null'))
    case.check()
    assert case.statuses == [416]


def test_a_partial_that_is_longer_than_the_file(case):
    case.leave(case.content + b"more" * 1000, size=case.size + 4000)
    case.check()


def test_a_file_that_changed(case):
    """A server that keeps If-Range's promise sends all of the new file, which is then got as any other.

    Who knows the new sha256 sees without asking that the partial is of another file.
    """
    case.file.content, case.file.etag = content(case.size, seed=2), '"v2"'
    case.check()
    anew = [200] if case.connections == 1 else [206, 206, 206]
    assert case.statuses == (anew if case.knows else [200, *anew])


def test_a_file_that_changed_but_for_its_etag(case):
    case.file.content = content(case.size + 1000, seed=2)
    case.check()


def test_a_part_of_unknown_length_that_is_longer_than_it_says(case):
    def answer(seen):
        reply = case.file.answer(seen)
        if reply.status == 206:
            reply.body, reply.chunked = bytes(reply.body) + b"more than that", True
        return reply

    case.server.on("/m.gguf", answer)
    case.check()


def test_a_file_that_changed_on_a_server_that_ignores_if_range(case):
    case.file.content, case.file.etag = content(case.size, seed=2), '"v2"'
    case.file.ignores_if_range = True
    case.check()


def test_a_file_that_changes_while_it_comes(case):
    case.file.stale, case.file.stale_etag, case.file.changes_after = content(case.size, seed=2), '"v0"', 1
    case.leave(b"")
    case.file.cut_every, case.file.cuts = 10_000, 1
    case.check()


def test_ranges_that_work_once(case):
    case.file.ranges = "first only"
    case.file.cut_every, case.file.cuts = (case.size - case.kept) // 40, 1
    case.check()
    assert case.statuses[0] == 206 and case.statuses[-1] == 200


def test_a_connection_that_is_cut_again_and_again(shape, tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=False)
        case.file.cut_every = 10 * 1024
        case.check()
        assert server.sent() == case.size - case.kept


def test_a_connection_that_is_reset_again_and_again(tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, 1, 64 * 1024, 20 * 1024, knows=True)
        case.file.cut_every, case.file.reset = 10 * 1024, True
        case.check()


def test_without_a_validator_or_sha256_nothing_is_continued(shape, tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=False)
        case.file.etag = ""
        case.leave(case.content[:case.kept], validator=None)
        case.check()
        assert {request.status for request in server.requests[-1:]} == {200}


def test_a_last_modified_serves_as_validator(shape, tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=False)
        case.file.etag, case.file.last_modified = "", "Mon, 02 Nov 2026 10:00:00 GMT"
        case.leave(case.content[:case.kept], validator=case.file.last_modified)
        case.check()
        assert server.sent() == case.size - case.kept


def test_a_weak_etag_is_compared_but_never_sent_as_a_condition(shape, tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=False)
        case.file.etag = 'W/"v1"'
        case.leave(case.content[:case.kept], validator='W/"v1"')
        case.check()
        assert server.sent() == case.size - case.kept
        assert not any("if-range" in request.headers for request in server.requests)


def test_a_wrong_hash_is_told_and_leaves_nothing(shape, tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=True)
        case.file.corrupt = True
        words = rf"m\.gguf has sha256 [0-9a-f]{{64}}, expected {sha256(case.content)}"
        with pytest.raises(DigestMismatch, match=words):
            case.fetch()
        assert names(tmp_path) == []


def test_a_partial_that_rotted_is_got_anew(shape, tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=True)
        case.leave(b"\0" * case.kept)
        case.check()
        assert server.sent() == 2 * case.size - case.kept


def test_a_server_that_contradicts_itself_to_the_end(shape, tmp_path):
    with FileServer() as server:
        case = Case(server, tmp_path, *shape, knows=True)
        case.file.status = 206
        with pytest.raises(DownloadFailed, match="contradicts itself: it sends a part and does not say which"):
            case.fetch()
        assert "m.gguf" not in names(tmp_path)
