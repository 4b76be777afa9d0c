"""Target: request heads as no client should write them, on a connection of their own that is half-closed after."""

from random import Random

from tests.support.fuzz import shapes
from tests.support.fuzz.client import Broken, Client
from tests.support.fuzz.fault import Fault
from tests.support.fuzz.mutate import spoil_bytes

METHODS = [b"GET", b"GET", b"POST", b"POST", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"get", b"G\0T", b"",
           b"CONNECT", b"TRACE", b"PRI", b"X" * 300]
PATHS = [b"/", b"/healthz", b"/api/version", b"/api/tags", b"/api/ps", b"/v1/models", b"/v1/models/solo",
         b"/v1/models/a/b/c", b"/v1/models/a%2Fb", b"/api/chat", b"/v1/chat/completions", b"/v1/messages",
         b"/api/show", b"/v1/embeddings", b"/v1/messages/count_tokens", b"/api/embed",
         b"/nope", b"/v1/nope", b"/%00", b"/%ff%fe", b"/..//..", b"//", b"*", b"http://localhost/healthz", b"/?a=b&c",
         b"/healthz?" + b"q" * 5000, b"/" + b"p" * 9000, b"/\xff", b"/a b", b"/%", b"?", b""]
VERSIONS = [b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.2", b"HTTP/0.9", b"http/1.1", b"HTTP/1",
                                b"", b"HTTP/1.1 x"]
FIELDS = [b"Host: localhost", b"Host: localhost", b"Host: a, b", b"Connection: close", b"Connection: keep-alive",
          b"Connection: upgrade", b"Upgrade: websocket", b"Content-Length: 0", b"Content-Length: 5",
          b"Content-Length: +5", b"Content-Length: -1", b"Content-Length: 1_0", b"Content-Length: 5, 5",
          b"Content-Length: 99999999999999999999", b"Content-Length:", b"Transfer-Encoding: chunked",
          b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: xchunked", b"Transfer-Encoding : chunked",
          b"Transfer-Encoding: identity", b"Expect: 100-continue", b"Expect: 200-maybe", b"Content-Type: \xff",
          b"Content-Encoding: gzip", b"Authorization: Bearer \xff", b"Authorization: Basic eA==", b"x-api-key: ",
          b"X-Request-Id: a\tb", b"X-Request-Id: " + b"r" * 200, b"X-Blazar-Mcp: all", b"X_Blazar_Mcp: all",
          b"Blazar-Expect: 100-continue", b"Cookie: a=b", b" folded: x", b"no colon", b": no name", b"A B: c",
          b"X: a\rb", b"X: a\0b", b"X: " + b"v" * 9000, b"Accept: */*", b"Origin: http://evil.example",
          b"Range: bytes=0-",
          b"X-Forwarded-For: 1.2.3.4", b"Forwarded: for=x", b"Proxy: x", b"Trailer: X"]
BODIES = [b"", b"", b"", b"hello", b"{}", b"5\r\nhello\r\n0\r\n\r\n", b"zz\r\n", b"-1\r\n", b"0\r\n\r\n",
          b"5;x=y\r\nhello\r\n0\r\nX: y\r\n\r\n", b"fffffffffffffffffff\r\n", b"5\nhello\n0\n\n",
          b'{"model":"nobody"}', b'12\r\n{"model":"nobody"}\r\n0\r\n\r\n']
REFUSED_BY_THE_PARSER = {501, 505}
"""What HTTP itself says of codings and versions that nobody here speaks (RFC 9110 15.6.2, 15.6.6)."""


def make(chance: Random) -> bytes:
    end = chance.choice([b"\r\n"] * 12 + [b"\n", b"\r"])
    lines = [b" ".join([chance.choice(METHODS), chance.choice(PATHS), chance.choice(VERSIONS)])]
    if chance.random() < 0.8:
        lines.append(b"Host: localhost")
    lines += [chance.choice(FIELDS) for _ in range(chance.choice([0, 1, 1, 2, 3, 8]))]
    if chance.random() < 0.01:
        lines += [b"X-%d: y" % number for number in range(chance.choice([90, 120, 2000]))]
    data = end.join([*lines, b"", b""]) + chance.choice(BODIES)
    for _ in range(chance.choice([0, 0, 1, 2])):
        data = spoil_bytes(data, chance)
    return data


class Heads:
    def __init__(self, port: int) -> None:
        self._client = Client(port)

    def try_one(self, chance: Random, number: int) -> str:
        sent = make(chance)
        try:
            answers = self._client.send_and_leave(sent)
        except Broken as broken:
            raise Fault(str(broken), sent) from broken
        for answer in answers:
            if answer.status >= 500 and answer.status not in REFUSED_BY_THE_PARSER:
                raise Fault(f"answers {answer.status}: {answer.body[:300]!r}", sent)
            self._check_shape(answer, sent)
        return "+".join(str(answer.status) for answer in answers[:2]) or "closed"

    @staticmethod
    def _check_shape(answer, sent: bytes) -> None:
        """Whatever the path, so in any of the three shapes."""
        if answer.status < 400 or not answer.body:
            return
        problems = []
        for dialect in ("openai", "ollama", "anthropic"):
            try:
                shapes.check(dialect, answer)
                return
            except shapes.Misshapen as misshapen:
                problems.append(misshapen)
        raise Fault(f"{answer.status}: {problems[0]}", sent)

    def close(self) -> None:
        self._client.close()
