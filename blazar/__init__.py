"""Blazar: one daemon that turns a Linux box into a private AI server."""

__version__ = "0.1.0"
