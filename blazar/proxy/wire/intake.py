"""What comes from a client: gunicorn's parser, behind our own check of the head and our own reading of the body.

The checked bytes are handed to gunicorn's parser as they came, through its unreader, on every version of it. A
conversation comes here with a head that it has read to its end, so nothing waits for more of it.
"""

from typing import Any

from gunicorn.http.errors import NoMoreData, ParseException
from gunicorn.http.message import Request
from gunicorn.http.parser import RequestParser

from blazar.errors import BlazarError, HeadRefused
from blazar.proxy.wire.framing import Framing
from blazar.proxy.wire.request_head import END, check_head, receive_head

LATE_EXPECT = "BLAZAR-EXPECT"
"""What `Expect` is called on its way to the application (request.EXPECTS), which answers it once it wants the body."""
READ_SIZE = 65536


class Unreadable(Exception):
    """A head that is refused; `began` is as much of it as came."""

    def __init__(self, error: BlazarError, began: bytes) -> None:
        super().__init__(error.message)
        self.error = error
        self.began = began


class ClientRequest(Request):
    """gunicorn's request, of a head that passed our check and with a body that we read."""

    def parse(self, unreader: Any) -> bytes:
        began = unreader.read()
        if not began:
            raise StopIteration
        try:
            raw, rest = receive_head(began, lambda: _more(unreader))
            began = raw
            self._head = check_head(raw)
            unreader.unread(raw + END + rest)
            unused = super().parse(unreader)
        except BlazarError as error:
            raise Unreadable(error, began) from error
        except ParseException as error:
            raise Unreadable(HeadRefused(reason=str(error)), began) from error
        self._tidy()
        return unused

    def _tidy(self) -> None:
        """Take from gunicorn what the application does itself, or what its environ would confuse.

        The fields are as we have read them: gunicorn 20.1 leaves tabs around values. In an environ `X_A` and `X-A` have
        one name, so fields with an underscore are dropped, as gunicorn 27 does.
        """
        self._expected_100_continue = False
        self.headers: list[tuple[str, str]] = [
            (LATE_EXPECT if name == "expect" else name.upper(), value) for name, value in self._head.fields
            if "_" not in name and name != LATE_EXPECT.lower()]

    def set_body_reader(self) -> None:
        self.body = ClientBody(self.unreader, self._head.framing())


class ClientBody:
    """`wsgi.input`: the body as its framing says; what follows it is left for the next request."""

    def __init__(self, unreader: Any, framing: Framing) -> None:
        self._unreader = unreader
        self._framing = framing

    def read(self, size: int = -1) -> bytes:
        """What came of the body, at least a byte, whatever the size; empty at its end.

        Raises BadFraming, and ConnectionError when the client left before the end.
        """
        while not self._framing.ended:
            data = self._unreader.read()
            if not data:
                raise ConnectionAbortedError("the client left within its body")
            payload = self._framing.feed(data)
            if self._framing.ended:
                self._unreader.unread(self._framing.rest)
            if payload:
                return payload
        return b""


class ClientParser(RequestParser):
    """The requests of one connection, one after the other."""

    mesg_class = ClientRequest

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.unreader.mxchunk = READ_SIZE


def _more(unreader: Any) -> bytes:
    data = unreader.read()
    if not data:
        raise NoMoreData
    return data
