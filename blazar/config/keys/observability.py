"""Observability: logs, the audit trail, traces"""

import re

from blazar.config.setting import Setting
from blazar.config.types import Bool, Choice, Text


class LogLevel(Choice):
    """A level in any case. A variable may hold a filter such as `info,blazar=debug`: ours is taken out of it."""

    def __init__(self) -> None:
        super().__init__("trace", "debug", "info", "warn", "error", "off")

    def check(self, value: object) -> str:
        if isinstance(value, str):
            value = {"warning": "warn", "critical": "error"}.get(value.lower(), value.lower())
        return super().check(value)

    def parse(self, text: str) -> str:
        found = text
        for part in text.split(","):
            target, _, level = part.strip().rpartition("=")
            if level and ((not target and found == text) or re.match(r"blazar\b", target)):
                found = level
        return self.check(found.strip())


SETTINGS = (
    Setting("log_level", LogLevel(), None, env=("RUST_LOG", "BLAZAR_LOG"),
            doc="Least important kind of message that is logged; unset = info."),
    Setting("audit_log", Bool(), True,
            doc="Write a line for each generation to log/audit.jsonl: who, which model, with what outcome."),
    Setting("pii_scrub", Bool(), True,
            doc="Hide mail addresses, secrets and IPv4 addresses in what `blazar requests` and `blazar events` show."),
    Setting("otlp_endpoint", Text(r"https?://\S+", like="an http(s) URL"), "", group="observability",
            doc="Collector to which traces and metrics are sent; empty = none."),
    Setting("otlp_service", Text(empty=False), "blazar", group="observability",
            doc="Name under which this server appears in traces."),
)
