"""Stand-ins for RPC workers: what they answer is played, so they can have any memory, or be no workers at all."""

import socket
import struct
import threading
from contextlib import contextmanager, suppress


@contextmanager
def server(*plays):
    """What listens at the address; each connection is given to the next of `plays`, the last one to all others."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        opened = []

        def serve():
            for number in range(100):
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                opened.append(sock)
                with suppress(OSError):  # closed beneath it, at the end of a test
                    plays[min(number, len(plays) - 1)](sock)
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        for sock in opened:
            sock.close()


def answering(hello_size, *devices):
    """A worker of a protocol whose hello is asked with so many bytes."""
    def play(sock):
        while head := sock.recv(9):
            command, size = struct.unpack("<BQ", head)
            request = sock.recv(size) if size else b""
            if command == 14 and size != hello_size:
                sock.close()
                return
            answer = {14: bytes([7, 0, 2]), 15: struct.pack("<I", len(devices)),
                      11: struct.pack("<QQ", *devices[request[0]]) if size == 4 else b""}[command]
            sock.sendall(struct.pack("<Q", len(answer)) + answer)
    return play
