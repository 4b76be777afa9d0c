"""How a client leaves."""

import socket
import struct


def fin(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    """As a process that is killed with something unread does, or a machine that does not know the connection."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def half(sock: socket.socket) -> None:
    """Send no more, and still read."""
    sock.shutdown(socket.SHUT_WR)
