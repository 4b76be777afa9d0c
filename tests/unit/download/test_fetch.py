"""`fetch` against a real server: what people read when it fails, what is kept, and who shares one download."""

import threading
import time

import pytest

from blazar.download.fetch import Source, fetch
from blazar.download.retry import Patience
from blazar.download.throttle import Bucket
from blazar.errors import (
    DownloadFailed,
    DownloadForbidden,
    DownloadLimited,
    DownloadMissing,
    DownloadStopped,
    DownloadUnauthorised,
)
from tests.servers.babbler import babbling
from tests.servers.file_server import FileServer, Reply, http_date
from tests.support.downloads import MIB, content, names, sha256
from tests.support.waiting import until

SMALL = content(64 * 1024)


@pytest.fixture
def server():
    with FileServer() as server:
        yield server


class Naps(list):
    """A sleep that only writes down how long it would have been."""

    def patience(self):
        return Patience(self.append)


def test_a_file_comes_with_its_digest_and_size(server, tmp_path):
    server.put("/m.gguf", SMALL)
    told = []
    fetched = fetch(Source(server.url("/m.gguf")), tmp_path / "m", lambda *step: told.append(step), connections=1)
    assert (fetched.path, fetched.sha256, fetched.size) == (tmp_path / "m", sha256(SMALL), len(SMALL))
    assert (tmp_path / "m").read_bytes() == SMALL
    assert names(tmp_path) == ["m"]
    assert server.requests[0].range is None
    assert server.requests[0].headers["accept-encoding"] == "identity"
    assert list(dict.fromkeys(step for step in told if step[1] == len(SMALL))) == [
        ("download", len(SMALL), len(SMALL)), ("verify", len(SMALL), len(SMALL))]


@pytest.mark.parametrize("connections", [1, 8])
def test_a_server_that_tells_nothing_of_its_file_is_asked_once(server, tmp_path, connections):
    server.put("/m", SMALL, etag="", ranges="none")
    fetch(Source(server.url("/m")), tmp_path / "m", connections=connections)
    assert len(server.requests) == 1


def test_servers_behind_one_name_that_disagree_about_the_version(server, tmp_path):
    """Each answer has another ETag. In the end the file comes in one stream."""
    data = content(40 * MIB)
    file = server.put("/real", data)

    def answer(seen):
        file.etag = f'"{len(server.requests)}"'
        return file.answer(seen)

    server.on("/m", answer)
    assert fetch(Source(server.url("/m"), sha256(data)), tmp_path / "m").size == len(data)


def test_an_empty_file(server, tmp_path):
    server.put("/empty", b"")
    for connections in (1, 8):
        assert fetch(Source(server.url("/empty")), tmp_path / "e", connections=connections).size == 0
        assert (tmp_path / "e").read_bytes() == b""


@pytest.mark.parametrize("connections", [1, 8])
def test_a_body_without_a_length(server, tmp_path, connections):
    server.put("/m", SMALL, chunked=True, ranges="whole")
    assert fetch(Source(server.url("/m")), tmp_path / "m", connections=connections).sha256 == sha256(SMALL)


@pytest.mark.parametrize("chunked", [False, True])
def test_another_size_than_expected(server, tmp_path, chunked):
    server.put("/m", SMALL, chunked=chunked)
    with pytest.raises(DownloadFailed, match=r"has [0-9]+ bytes, and 1000 were expected"):
        fetch(Source(server.url("/m"), size=1000), tmp_path / "m", connections=1)
    assert "m" not in names(tmp_path)


def test_a_large_file_comes_in_ranges_that_cover_it_once(server, tmp_path):
    data = content(40 * MIB)
    server.put("/m", data)
    fetch(Source(server.url("/m"), sha256(data)), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == data
    assert server.sent() == len(data)
    assert sorted(request.range for request in server.requests) == [
        "bytes=0-16777215", "bytes=16777216-33554431", "bytes=33554432-"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("download-")]


def test_below_32_mib_there_is_one_stream(server, tmp_path):
    data = content(31 * MIB)
    server.put("/m", data)
    fetch(Source(server.url("/m"), size=len(data)), tmp_path / "m")
    assert [request.range for request in server.requests] == [None]


# -- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "kind", "words"), [
    (401, DownloadUnauthorised, r"the server wants to know who asks \(401\); give a token$"),
    (403, DownloadForbidden, r"the server does not let you have it \(403\); give a token, or see on its page"),
    (404, DownloadMissing, r"the server has no such file \(404\); see that the address is right$"),
    (410, DownloadMissing, r"\(410\)"),
    (418, DownloadFailed, "the server answered with status 418; see that the address is that of a file")])
@pytest.mark.parametrize("connections", [1, 8])
def test_a_refusal_is_told_at_once(server, tmp_path, status, kind, words, connections):
    server.put("/m", SMALL, status=status)
    with pytest.raises(kind, match=words) as caught:
        fetch(Source(server.url("/m?sig=hush")), tmp_path / "m", connections=connections)
    assert type(caught.value) is kind
    assert str(caught.value).startswith(f"could not download {server.url('/m')}: ")
    assert len(server.requests) == 1


def test_a_token_that_is_not_taken(server, tmp_path):
    file = server.put("/m", SMALL, token="right")
    with pytest.raises(DownloadForbidden, match="see on its page") as caught:
        fetch(Source(server.url("/m"), token="wrong-token"), tmp_path / "m")
    assert "wrong-token" not in str(caught.value)
    file.status = 401
    with pytest.raises(DownloadUnauthorised, match="and did not take the token; give a token that is valid"):
        fetch(Source(server.url("/m"), token="wrong-token"), tmp_path / "m")
    file.status = None
    assert fetch(Source(server.url("/m"), token="right"), tmp_path / "m").size == len(SMALL)


@pytest.mark.parametrize("url", ["ftp://host/file", "m.gguf", "http://", "file:///etc/passwd", "http://[::1/x"])
def test_what_is_no_web_address(tmp_path, url):
    with pytest.raises(DownloadFailed, match="no address of a web server; write it as https://host/path"):
        fetch(Source(url), tmp_path / "m")


# -- pauses and failures -------------------------------------------------------------------------------


def test_a_short_pause_is_kept(server, tmp_path):
    naps = Naps()
    server.put("/m", SMALL, scripted=[Reply(429, headers={"Retry-After": "7"}),
                                      Reply(503, headers={"Retry-After": http_date(time.time() + 30)})])
    fetch(Source(server.url("/m")), tmp_path / "m", connections=1, patience=naps.patience())
    assert naps[0] == 7 and 25 < naps[1] <= 30 and len(naps) == 2
    assert [request.status for request in server.requests] == [429, 503, 200]


def test_a_long_pause_is_told(server, tmp_path):
    naps = Naps()
    server.put("/m", SMALL, scripted=[Reply(429, headers={"Retry-After": "3600"})])
    with pytest.raises(DownloadLimited, match=r"asks for a pause \(429\) of 1 h; what has come is kept") as caught:
        fetch(Source(server.url("/m")), tmp_path / "m", connections=1, patience=naps.patience())
    assert caught.value.retry_after == 3600
    assert naps == []


def test_pauses_without_end_come_to_one(server, tmp_path):
    naps = Naps()
    server.put("/m", SMALL, scripted=[Reply(429, headers={"Retry-After": "0"}) for _ in range(1000)])
    with pytest.raises(DownloadLimited):
        fetch(Source(server.url("/m")), tmp_path / "m", connections=1, patience=naps.patience())
    assert len(server.requests) < 200


def test_a_server_that_stays_broken(server, tmp_path):
    naps = Naps()
    server.put("/m", SMALL, status=500)
    with pytest.raises(DownloadFailed, match=r"error of its own \(500\); what has come is kept, try again later"):
        fetch(Source(server.url("/m")), tmp_path / "m", connections=1, patience=naps.patience())
    assert naps == [0.5, 1, 2, 4, 8]
    assert len(server.requests) == 6


@pytest.mark.parametrize(("connections", "size"), [(1, 64 * 1024), (8, 40 * MIB)])
def test_a_500_in_the_middle_is_got_over(server, tmp_path, connections, size):
    data, naps = content(size), Naps()
    server.put("/m", data, fails_at=size // 3, fails=2, cut_every=size // 2, cuts=1)
    fetched = fetch(Source(server.url("/m")), tmp_path / "m", connections=connections, patience=naps.patience())
    assert fetched.sha256 == sha256(data)
    assert server.sent() == len(data) + sum(request.sent for request in server.requests if request.status == 500)
    assert 500 in [request.status for request in server.requests]


def test_a_server_that_takes_fewer_connections_gets_fewer(server, tmp_path):
    """Everything that comes while another answer is under way is told to come later."""
    data, busy = content(80 * MIB), threading.Semaphore(1)
    file = server.put("/real", data)

    def answer(seen):
        if not busy.acquire(blocking=False):
            return Reply(429)
        try:
            time.sleep(0.05)
            return file.answer(seen)
        finally:
            busy.release()

    server.on("/m", answer)
    fetched = fetch(Source(server.url("/m"), sha256(data)), tmp_path / "m", patience=Naps().patience())
    assert fetched.size == len(data)
    assert [request.status for request in server.requests].count(429) <= 8


def test_nobody_listens(tmp_path):
    naps = Naps()
    with FileServer() as gone:
        url = gone.url("/m")
    with pytest.raises(DownloadFailed, match=r"the connection breaks again and again .*refused"):
        fetch(Source(url), tmp_path / "m", patience=naps.patience())
    assert naps == [0.5, 1, 2, 4, 8]


def test_a_server_without_ranges_that_cuts_every_answer_is_given_up(server, tmp_path):
    naps = Naps()
    server.put("/m", SMALL, ranges="none", cut_every=10_000)
    with pytest.raises(DownloadFailed, match="breaks again and again"):
        fetch(Source(server.url("/m")), tmp_path / "m", connections=1, patience=naps.patience())
    assert len(server.requests) < 10


# -- redirects -----------------------------------------------------------------------------------------


def test_a_token_stays_with_its_origin(server, tmp_path):
    with FileServer() as other:
        other.put("/blob", SMALL)
        server.put("/m", b"", redirect=other.url("/blob?sig=1"))
        fetched = fetch(Source(server.url("/m"), token="secret"), tmp_path / "m", connections=1)
        assert fetched.sha256 == sha256(SMALL)
        assert server.requests[0].headers["authorization"] == "Bearer secret"
        assert "authorization" not in other.requests[0].headers
        assert other.requests[0].query == "sig=1"


def test_a_token_goes_along_within_its_origin(server, tmp_path):
    server.put("/blob", SMALL, token="secret")
    server.put("/m", b"", redirect="/blob")
    assert fetch(Source(server.url("/m"), token="secret"), tmp_path / "m").size == len(SMALL)


def test_a_redirect_back_home_shows_the_token_again_only_there(server, tmp_path):
    with FileServer() as other:
        server.put("/blob", SMALL, token="secret")
        other.put("/hop", b"", redirect=server.url("/blob"))
        server.put("/m", b"", redirect=other.url("/hop"))
        assert fetch(Source(server.url("/m"), token="secret"), tmp_path / "m").size == len(SMALL)
        assert "authorization" not in other.requests[0].headers


def test_user_and_password_of_an_address_stay_with_its_origin_and_out_of_sight(server, tmp_path):
    with FileServer() as other:
        other.put("/blob", SMALL, status=404)
        server.put("/m", b"", redirect=other.url("/blob"))
        with pytest.raises(DownloadMissing) as caught:
            fetch(Source(server.url("/m").replace("//", "//u:pass%20word@")), tmp_path / "m")
        assert "pass" not in str(caught.value)
        assert server.requests[0].headers["authorization"] == "Basic dTpwYXNzIHdvcmQ="
        assert "authorization" not in other.requests[0].headers
        assert "pass" not in (tmp_path / "m.part.json").read_text()


def test_ranges_go_to_where_the_redirect_led_and_home_again_when_that_ran_out(server, tmp_path):
    data = content(40 * MIB)
    with FileServer() as other:
        blob = other.put("/blob", data)
        blob.cut_every, blob.cuts = 5 * MIB, 1
        answers = iter([403])

        def blob_that_runs_out(seen):
            if seen.range == "bytes=33554432-" and (code := next(answers, None)):
                return Reply(code)
            return blob.answer(seen)

        other.on("/blob", blob_that_runs_out)
        server.put("/m", b"", redirect=other.url("/blob"))
        assert fetch(Source(server.url("/m"), sha256(data)), tmp_path / "m").size == len(data)
        assert [request.status for request in server.requests] == [302, 302]


def test_redirects_without_end(server, tmp_path):
    server.put("/m", b"", redirect="/m")
    with pytest.raises(DownloadFailed, match="leads through more than 10 redirects"):
        fetch(Source(server.url("/m")), tmp_path / "m")


@pytest.mark.parametrize(("location", "words"), [
    ("ftp://host/x", "no address of a web server"), ("file:///etc/passwd", "no address of a web server"),
    ("http://h/" + "x" * 9000, "more than 8192 characters")])
def test_redirects_to_nowhere(server, tmp_path, location, words):
    server.put("/m", b"", redirect=location)
    with pytest.raises(DownloadFailed, match=words):
        fetch(Source(server.url("/m")), tmp_path / "m")


# -- stopping, sharing, following ----------------------------------------------------------------------


@pytest.mark.parametrize("connections", [1, 8])
def test_a_stop_keeps_what_has_come(server, tmp_path, connections):
    data, stop, held, told = content(40 * MIB), threading.Event(), threading.Event(), [0]
    file = server.put("/m", data, held=held)

    def progress(stage, done, total):
        """Stop when everybody waits for the server."""
        if done > 4 * MIB and done == told[-1]:
            stop.set()
        told.append(done)

    with pytest.raises(DownloadStopped, match="what has come is kept"):
        fetch(Source(server.url("/m")), tmp_path / "m", progress, connections=connections, stop=stop)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("download-")]
    assert names(tmp_path) == ["m.part", "m.part.json"]
    held.set()
    file.held = None
    server.requests.clear()
    assert fetch(Source(server.url("/m")), tmp_path / "m", connections=connections).sha256 == sha256(data)
    assert server.sent() < len(data) - 4 * MIB + 1


def test_a_progress_that_raises_ends_the_download_and_keeps_what_has_come(server, tmp_path):
    server.put("/m", content(40 * MIB), held=threading.Event())

    def progress(stage, done, total):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(Source(server.url("/m")), tmp_path / "m", progress)
    assert names(tmp_path) == ["m.part", "m.part.json"]


def test_a_stop_while_the_server_says_nothing(server, tmp_path):
    silent, stop = threading.Event(), threading.Event()

    def answer(seen):
        stop.set()
        silent.wait(30)
        return Reply(404)

    server.on("/m", answer)
    began = time.monotonic()
    with pytest.raises(DownloadStopped):
        fetch(Source(server.url("/m")), tmp_path / "m", stop=stop)
    silent.set()
    assert time.monotonic() - began < 5


def test_two_share_one_download(server, tmp_path):
    data, held = content(40 * MIB), threading.Event()
    server.put("/m", data, held=held)
    results, followed = [], []

    def first():
        results.append(fetch(Source(server.url("/m")), tmp_path / "m"))

    def second():
        results.append(fetch(Source(server.url("/m")), tmp_path / "m", lambda *step: followed.append(step)))

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    until(lambda: server.sent() > MIB)
    threads[1].start()
    until(lambda: any(done and total == len(data) for _, done, total in followed), what="the second follows")
    held.set()
    for thread in threads:
        thread.join()
    assert [result.sha256 for result in results] == [sha256(data)] * 2
    assert server.sent() == len(data)
    assert names(tmp_path) == ["m"]


def test_who_followed_goes_on_when_the_first_one_stops(server, tmp_path):
    data, held, stop = content(8 * MIB), threading.Event(), threading.Event()
    file = server.put("/m", data, held=held)
    results, followed = [], []

    def first():
        with pytest.raises(DownloadStopped):
            fetch(Source(server.url("/m")), tmp_path / "m", stop=stop, connections=1)

    def second():
        results.append(fetch(Source(server.url("/m")), tmp_path / "m", lambda *step: followed.append(step)))

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    until(lambda: server.sent() >= 4 * MIB)
    threads[1].start()
    until(lambda: followed)
    file.held = None
    stop.set()
    for thread in threads:
        thread.join()
    held.set()
    assert results[0].sha256 == sha256(data)
    assert (tmp_path / "m").read_bytes() == data


def test_a_target_that_is_there_is_known_by_its_digest(server, tmp_path):
    server.put("/m", SMALL)
    (tmp_path / "m").write_bytes(SMALL)
    assert fetch(Source(server.url("/m"), sha256(SMALL).upper()), tmp_path / "m").sha256 == sha256(SMALL)
    assert server.requests == []
    (tmp_path / "m").write_bytes(b"other")
    fetch(Source(server.url("/m"), sha256(SMALL)), tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == SMALL
    assert names(tmp_path) == ["m"]


def test_all_lanes_pay_into_one_bucket(server, tmp_path):
    data = content(40 * MIB)
    server.put("/m", data)

    class Counted(Bucket):
        paid = 0

        def take(self, count, wait=time.sleep):
            type(self).paid += count

    fetch(Source(server.url("/m")), tmp_path / "m", bucket=Counted(1))
    assert Counted.paid == len(data)


def test_a_limit_is_kept(server, tmp_path):
    data = content(3 * MIB)
    server.put("/m", data)
    began = time.monotonic()
    fetch(Source(server.url("/m")), tmp_path / "m", bucket=Bucket(2 * MIB))
    assert time.monotonic() - began >= 0.45


@pytest.mark.parametrize("piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b"H"], ids=["100 without end", "slow"])
def test_a_server_whose_answer_never_begins_is_left_when_we_stop(tmp_path, piece):
    """No thread stays behind that goes on listening to it."""
    stop = threading.Event()
    with babbling(piece) as server:
        threading.Timer(0.3, stop.set).start()
        with pytest.raises(DownloadStopped):
            fetch(Source(server.base + "/m.gguf"), tmp_path / "m", stop=stop)
        assert server.left.wait(5)
    until(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("download-")], 5,
          "the lanes to end")
    assert names(tmp_path) == [] or names(tmp_path) == ["m.part", "m.part.json"]
