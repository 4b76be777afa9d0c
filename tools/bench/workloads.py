"""What the client does, as options of tools/bench/load.c; each workload answers one question."""

from dataclasses import dataclass

REFERENCES = frozenset({"direct", "nginx", "haproxy", "go"})
BASIC = frozenset({"direct", "nginx"})
ALONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Workload:
    """`others` are the targets that run it beside Blazar."""

    name: str
    title: str
    options: str
    others: frozenset[str]
    repeats: int = 1
    """Turns that all its targets have in a round. The short ones have several: from one second to the next the same
    program may take half as long again on a shared machine, and only many turns tell programs apart."""
    gentle: str = ""
    """Options that replace those of the same name for a target that could not stand them."""

    def arguments(self, slow: bool = False) -> list[str]:
        options = dict(_pairs(self.options))
        if slow:
            options.update(_pairs(self.gentle))
        return [word for name, value in options.items() for word in (name, value) if word]


def _pairs(options: str) -> list[tuple[str, str]]:
    """`--stream --tokens 4` as pairs of a name and a value, which is '' for a switch."""
    found = []
    for option in options.split("--")[1:]:
        name, _, value = option.strip().partition(" ")
        found.append((f"--{name}", value))
    return found


PACED = "--stream --interval-us 20000 --event-bytes 230 --skip-events 5"

ONE = Workload("one", "1 connection, JSON answers", "--connections 1 --seconds 0.4 --warm 100",
               REFERENCES | {"litellm"}, repeats=4, gentle="--seconds 3 --warm 10")
MANY = Workload("many", "64 connections, JSON answers", "--connections 64 --seconds 1 --warm 300",
                REFERENCES | {"litellm"}, repeats=2, gentle="--seconds 5 --warm 64")
FIRST = Workload("first", "1 connection, streams of 4 events",
                 "--connections 1 --stream --requests 200 --warm 20 --tokens 4 --interval-us 1000", REFERENCES,
                 repeats=4)
PACED_256 = Workload("paced-256", "256 streams of 80 events, 20 ms apart",
                     f"{PACED} --connections 256 --requests 256 --tokens 80 --spread-us 78", REFERENCES,
                     repeats=2)
PACED_1000 = Workload("paced-1000", "1,000 streams of 40 events, 50 ms apart",
                      "--stream --interval-us 50000 --event-bytes 230 --skip-events 5 --connections 1000 "
                      "--requests 1000 --tokens 40 --spread-us 50", BASIC)
BURST = Workload("burst", "256 streams that are sent in one instant",
                 "--stream --connections 256 --requests 256 --tokens 4 --interval-us 20000", REFERENCES)
BODY = Workload("body", "1 connection, request bodies of 200 KB",
                "--connections 1 --requests 150 --warm 20 --pad 200000", REFERENCES)
GONE = Workload("gone", "clients that leave after 30 ms, before any answer",
                "--connections 1 --requests 30 --delay-us 1000000 --leave-after-us 30000", frozenset({"nginx", "go"}))

_DIALECT = f"{PACED} --connections 64 --requests 64 --tokens 60 --spread-us 312 --dialect"
OPENAI = Workload("openai", "64 streams of 60 events, 20 ms apart, OpenAI", f"{_DIALECT} openai", ALONE)
OLLAMA = Workload("ollama", "the same from Ollama's /api/chat", f"{_DIALECT} ollama", ALONE)
ANTHROPIC = Workload("anthropic", "the same from Anthropic's /v1/messages", f"{_DIALECT} anthropic", ALONE)

WORKLOADS = (ONE, MANY, FIRST, PACED_256, PACED_1000, BURST, BODY, GONE, OPENAI, OLLAMA, ANTHROPIC)
