"""docs/tools.md says what a person reads: its commands are run in order, and their output compared."""

import re
import shutil
from pathlib import Path

from blazar.engines.install.lanes import parse
from blazar.paths import Paths
from tests.support.lane_catalog import LaneCatalog
from tests.support.needs import need
from tests.support.raw_gguf import write_gguf
from tests.support.shell import Shell
from tests.support.small_tree import small_tree
from tests.support.tool_stubs import tool

PAGE = Path(__file__).parent.parent.parent / "docs" / "tools.md"


class Stage:
    """A person's home, a folder to work in, and a catalog of lanes."""

    def __init__(self, folder: Path, catalog: LaneCatalog) -> None:
        self.folder = folder
        self.catalog = catalog
        self.shell = Shell(folder / "home")
        self.usual = dict(self.shell.env)

    def set(self, scene: str) -> None:
        self.shell.env = dict(self.usual)
        getattr(self, re.sub(r"\W+", "_", scene))()

    def a_source_tree_lies_in_llama_cpp(self) -> None:
        small_tree(self.folder / "llama.cpp")

    def nothing_to_build_with(self) -> None:
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "git").symlink_to(shutil.which("true"))
        self.shell.env["PATH"] = str(self.folder / "bin")

    def a_model_and_a_build_with_its_tools(self) -> None:
        build = Paths(self.shell.home / ".local/share/blazar").engines / "b11434-cpu"
        tool(build, "llama-quantize")
        tool(build, "llama-bench")
        for name, number in (("solo:f16", 1), ("old:q4_0", 2)):
            model = write_gguf(self.folder / "model.gguf", {"general.file_type": number})
            self.shell.ok("pull", str(model), "--name", name)

    def no_build_has_tools(self) -> None:
        build = Paths(self.shell.home / ".local/share/blazar").engines / "b11434-cpu"
        (build / "llama-quantize").unlink()
        self.shell.env["PATH"] = "/nowhere"

    def a_catalog_has_a_lane(self) -> None:
        self.catalog.offer(self.catalog.lane("example", "examplemoe", superseded={"examplemoe": 11600}))
        self.shell.env["BLAZAR_CAPABILITY_REGISTRY"] = self.catalog.catalog_url

    def a_checkout(self) -> None:
        """Where the tests run."""


def steps() -> list[tuple[str, str]]:
    """The scenes and the commands of the page, in order; a command comes with the output that it should have."""
    found: list[tuple[str, str]] = []
    for scene, block in re.findall(r"<!-- scene: (.*?) -->|```console\n(.*?)```", PAGE.read_text(), re.DOTALL):
        if scene:
            found.append(("scene", scene))
        found += re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    return found


def test_the_page_from_top_to_bottom(tmp_path):
    need("cmake")
    with LaneCatalog() as catalog:
        stage = Stage(tmp_path, catalog)
        for command, output in steps():
            if command == "scene":
                stage.set(output)
                continue
            words = [word.replace("llama.cpp", f"{tmp_path}/llama.cpp") for word in command.split()]
            done = stage.shell(*words[1:])
            said, output = re.sub(" +", " ", done.stdout + done.stderr), re.sub(" +", " ", output)
            form = "".join(".*" if piece == "…" else re.escape(piece) for piece in re.split("(…)", output))
            assert re.fullmatch(form, said, re.DOTALL), f"$ {command}\n{said}\n--- the page says:\n{output}"


def test_the_catalog_of_the_page_is_right():
    [text] = re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    [lane] = parse(text.replace("64 hex digits", "a" * 64).encode(), "https://example.org/lanes/catalog.json")
    assert lane.assets[0].url == "https://example.org/lanes/example.tar.gz" and lane.superseded == {"examplemoe": 11600}
