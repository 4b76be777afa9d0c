"""A strict reader of Prometheus's text format: what it does not accept, a scraper may refuse."""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = rf'{NAME}="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (-?[0-9.e+-]+)")
SUFFIXES = ("_bucket", "_sum", "_count")
ESCAPES = {'\\"': '"', "\\\\": "\\", "\\n": "\n"}

Key = tuple[str, tuple[tuple[str, str], ...]]


def read(text: str) -> dict[Key, float]:
    """Every sample by (name, labels); fails on anything irregular, histograms that do not add up included."""
    assert text.endswith("\n") and "\r" not in text
    kinds: dict[str, str] = {}
    found: dict[Key, float] = {}
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            current = line.split(" ")[2]
            assert current not in kinds, f"{current} comes twice"
            assert len(line.split(" ", 3)[3]) > 5, line
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == current and kind in ("counter", "gauge", "histogram"), line
            assert name.endswith("_total") == (kind == "counter") or ":" in name, line  # an engine's own name
            kinds[name] = kind
        else:
            key, value = _sample(line)
            family = key[0] if key[0] in kinds else key[0].removesuffix(next(filter(key[0].endswith, SUFFIXES)))
            assert family == current and (kinds[family] == "histogram") == (family != key[0]), line
            assert key not in found, f"{line} comes twice"
            found[key] = value
    for name, kind in kinds.items():
        if kind == "histogram":
            _check_histogram(name, found)
    return found


def _sample(line: str) -> tuple[Key, float]:
    matched = SAMPLE.fullmatch(line)
    assert matched, f"not a sample: {line!r}"
    pairs = re.findall(rf'({NAME})="((?:[^"\\]|\\.)*)"', matched[2] or "")
    labels = tuple((name, re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], value)) for name, value in pairs)
    assert len({name for name, _ in labels}) == len(labels), line
    return (matched[1], labels), float(matched[3])


def _check_histogram(name: str, found: dict[Key, float]) -> None:
    rows: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    for (sample, labels), value in found.items():
        if sample == f"{name}_bucket":
            (_, bound), rest = labels[-1], labels[:-1]
            rows.setdefault(rest, []).append((float(bound), value))
    for labels, buckets in rows.items():
        assert buckets == sorted(buckets) and [count for _, count in buckets] == sorted(count for _, count in buckets)
        assert buckets[-1] == (float("inf"), found[f"{name}_count", labels])
        assert found[f"{name}_sum", labels] >= 0


def value(found: dict[Key, float], name: str, **labels: str) -> float:
    """The sum of the samples of `name` whose labels include these."""
    return sum(number for (sample, has), number in found.items()
               if sample == name and labels.items() <= dict(has).items())
