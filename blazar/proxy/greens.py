"""The one door to gevent for everything outside `wire/`: greenlets, their events and their sleep."""

from gevent import Greenlet, sleep, spawn
from gevent.event import Event

__all__ = ["Event", "Greenlet", "sleep", "spawn"]
