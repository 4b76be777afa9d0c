"""docs/models.md: its commands are run and print what it says, its catalog is the code's. Numbers are examples."""

import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from blazar.errors import NothingFits
from blazar.store import catalog
from blazar.store.registry import DEFAULT_BASE
from tests.integration.test_pull import lines, post
from tests.servers.registry import COMMIT, Registry
from tests.support.raw_gguf import gguf_bytes
from tests.support.shell import BLAZAR, Shell

PAGE = (Path(__file__).parent.parent.parent / "docs" / "models.md").read_text()
BUILDS = {f"Qwen3-8B-{label}.gguf": gguf_bytes({"general.file_type": number}, elements=100 * number)
          for label, number in (("Q4_K_M", 15), ("Q8_0", 17), ("BF16", 32))}


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def alike(text: str, base: str) -> str:
    """`text` with its sizes, builds, digests and the registry's address made alike."""
    text = text.replace(base, DEFAULT_BASE).replace(COMMIT, "COMMIT")
    text = re.sub(r"has sha256 \w+, expected \w+", "has sha256 FOUND, expected PROMISED", text)
    return re.sub(r"\b(q8_0|bf16)\b", "BUILD", re.sub(r"[\d.]+ (B|KiB|MiB|GiB|TiB)\b", "SIZE", text))


@pytest.fixture(scope="module")
def registry():
    with Registry() as running:
        running.add("unsloth/Qwen3-8B-GGUF", BUILDS)
        running.add("example/Gated-GGUF", {"Gated-Q8_0.gguf": gguf_bytes()}, token="right", gated=True)
        running.add("example/Private-GGUF", {"Private-Q8_0.gguf": gguf_bytes()}, token="right")
        running.add("example/Broken-GGUF", {"Broken-Q8_0.gguf": gguf_bytes()})
        running.repos["example/Broken-GGUF"].digests["Broken-Q8_0.gguf"] = "0" * 64
        yield running


@pytest.fixture(scope="module")
def shell(tmp_path_factory, registry):
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell.env["BLAZAR_REGISTRY_BASE"] = registry.base
    yield shell
    shell.stop()


def run(shell: Shell, command: str) -> str:
    """What the command, which may begin with variables, prints on a terminal, without its progress."""
    words = shlex.split(command)
    env = dict(word.split("=", 1) for word in words[:words.index("blazar")])
    done = subprocess.run([*BLAZAR, *words[words.index("blazar") + 1:]], env={**shell.env, **env}, text=True,
                          timeout=60, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=shell.home)
    return done.stdout


@pytest.mark.parametrize("number", range(len(blocks("console"))))
def test_commands_print_what_the_page_says(shell, registry, number):
    for part in blocks("console")[number].removeprefix("$ ").split("\n$ "):
        command, _, told = part.partition("\n")
        assert alike(run(shell, command), registry.base).strip() == alike(told, registry.base).strip(), command


def test_the_lines_of_the_api(shell, registry):
    shell.start()
    shell("rm", "qwen3-8b:bf16")  # which the commands of the page may have pulled
    told = lines(post(shell, {"model": "qwen3-8b"}))
    wanted = [json.loads(line) for line in blocks("json")[0].splitlines()]
    assert [sorted(line) for line in wanted if "digest" in line] == [["completed", "digest", "status", "total"]]
    plain = [alike(line["status"], registry.base) for line in told if "digest" not in line]
    assert plain == [alike(line["status"], registry.base) for line in wanted if "digest" not in line]
    for line in [line for line in told if "digest" in line]:
        assert re.fullmatch(r"pulling [0-9a-f]{12}", line["status"])
        assert set(line) <= {"status", "digest", "total", "completed"}


def test_the_refusal_of_what_does_not_fit():
    error = NothingFits(name="llama-3.3-70b", smallest="q2_k", size="24.6 GiB",
                        budget="80% of this machine's memory is 12.8 GiB")
    assert blocks("text")[0].strip() == error.message


def test_the_catalog_is_whole():
    rows = []
    for entry in catalog.entries():
        from_repo = isinstance(entry, catalog.RepoEntry)
        place = f"`{entry.repo}`" if from_repo else f"the Python package `{entry.package}`"
        rows.append(f"| `{entry.name}` | {', '.join(f'`{alias}`' for alias in entry.aliases)} | {place} |")
    assert PAGE.partition("| name | also | comes from |\n| --- | --- | --- |\n")[2].splitlines() == rows
