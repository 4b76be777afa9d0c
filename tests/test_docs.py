"""What the hand-written pages name must exist: files, names in them, verbs, targets of make; examples are right."""

import json
import re
from pathlib import Path

import pytest

from blazar.cli.main import get_parser
from blazar.config.environment import misspelt
from blazar.config.keys.speculative import FAMILIES
from blazar.config.load import load
from blazar.config.registry import SETTINGS
from blazar.config.tables.overrides import FIELDS
from blazar.errors import ModelfileRefused
from blazar.proxy.dialects import images, media, openai_embeddings
from blazar.store import modelfile
from blazar.store.create import GO_IGNORED
from blazar.store.parameters import KINDS
from blazar.supervisor.loader import NO_ENGINE
from tests.support.config_files import load_text
from tools.bench.targets import LITELLM_VENV

ROOT = Path(__file__).parent.parent
OF_FILES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/modelfiles.md")
"""Pages in which what looks like the path of a file is one of ours."""

PAGES = (*OF_FILES, "docs/models.md", "docs/engines.md", "docs/tools.md", "docs/speculation.md", "docs/children.md",
         "docs/responses.md", "docs/ollama.md", "docs/openai.md", "docs/anthropic.md", "docs/vision.md",
         "docs/embeddings.md", "docs/structured-output.md", "docs/keys.md", "docs/queueing.md",
         "docs/guards.md", "docs/aliases.md", "docs/requests.md", "docs/semantic-cache.md",
         "docs/install.md", "docs/operate.md", "docs/observe.md", "docs/secure.md", "docs/metrics.md", "docs/reload.md")


@pytest.mark.parametrize("page", OF_FILES)
def test_files_that_are_named_exist(page):
    named = re.findall(r"(?<![\w.~/-])((?:[\w.-]+/)+(?:[\w-]+\.\w+)?)(?=[`)\s,;:])", (ROOT / page).read_text())
    missing = [name for name in named if not any((base / name).exists() for base in (ROOT, ROOT / "blazar"))]
    assert [name for name in missing if not name.startswith(("./", "run/"))] == []


@pytest.mark.parametrize("page", PAGES)
def test_verbs_that_are_named_exist(page):
    text = (ROOT / page).read_text()
    verbs = choices(get_parser())
    assert [verb for verb in re.findall(r"`blazar (\w+)", text) if verb not in verbs and verb != "VERB"] == []
    for verb in ("engine", "config", "keys", "service"):
        named = re.findall(rf"(?:`|^\$ )blazar {verb}\s(\w+)", text, re.MULTILINE)
        assert [action for action in named if action not in choices(verbs[verb])] == []


@pytest.mark.parametrize("page", PAGES)
def test_variables_that_are_named_are_read(page):
    named = set(re.findall(r"\bBLAZAR_[A-Z_]+\b", (ROOT / page).read_text())) - {LITELLM_VENV}
    assert misspelt(dict.fromkeys(named, ""), SETTINGS) == []


def choices(parser):
    """The verbs of the command line, or the actions of one verb."""
    return next(action.choices for action in parser._actions if action.dest != "help" and action.choices)


@pytest.mark.parametrize("page", PAGES)
def test_targets_of_make_that_are_named_exist(page):
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"[`$] ?make ([\w-]+)", (ROOT / page).read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES)
def test_names_within_files_exist(page):
    for name, file in re.findall(r"`(\w+)`(?: of `\w+`)? in `([\w/]+\.py)`", (ROOT / page).read_text()):
        assert re.search(rf"\b{name}\b", (ROOT / "blazar" / file).read_text()), f"{name} in {file}"


def test_examples_of_the_readme_are_right(tmp_path):
    blocks = re.findall(r"```(python|toml)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert [kind for kind, _ in blocks] == ["python", "python", "python", "toml"]
    for _, text in blocks[:3]:
        compile(text, "README.md", "exec")
    (tmp_path / "config.toml").write_text(blocks[3][1])
    assert load(tmp_path / "config.toml", {}).warnings == ()


def test_the_page_on_modelfiles_says_what_people_meet():
    page = (ROOT / "docs" / "modelfiles.md").read_text()
    text = re.findall(r"```modelfile\n(.*?)```", page, re.DOTALL)[0]
    found = modelfile.parse(text)
    assert found.preset.parameters == {"temperature": 0.7, "num_ctx": 4096, "stop": ["Luigi:"]}
    assert len(found.preset.messages) == 2 and found.preset.system.startswith("You are Mario.") and not found.warnings
    with pytest.raises(ModelfileRefused) as caught:
        modelfile.parse("FROM m\nPARAMETER temprature 1")
    shown = [f"blazar: {caught.value.message}", f"blazar: warning: {GO_IGNORED}",
             NO_ENGINE.format(format="safetensors")]
    assert [block.strip() for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL)] == shown
    options = set(re.findall(r"`(\w+)`", next(line for line in page.splitlines() if line.startswith("| `PARAMETER`"))))
    assert options - {"PARAMETER"} == set(KINDS)


def test_the_page_on_speculation_knows_every_family_and_settings_that_exist(tmp_path):
    page = (ROOT / "docs" / "speculation.md").read_text()
    table = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert {name for cell in table for name in re.findall(r"`([\w-]+)`", cell)} - {"spec"} == set(FAMILIES) - {"auto"}
    named = set(re.findall(r"`((?:spec|ngram|ubatch|adaptive)_\w+)`", page))
    assert named - set(SETTINGS) == set() and len(named) >= 9
    (tmp_path / "config.toml").write_text(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)[0])
    assert load(tmp_path / "config.toml", {}).warnings == ()


def test_the_page_on_pictures_has_the_limits_as_they_are():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", (ROOT / "docs/vision.md").read_text(), re.MULTILINE)
    limits = {what.strip(): limit.strip() for what, limit in rows}
    assert limits["pictures, sounds and films in one request"] == str(media.MOST)
    assert limits["a picture's file"] == f"{images.LARGEST >> 20} MiB"
    assert limits["a picture's size"] == f"{images.MOST_PIXELS:,} pixels"
    assert limits["a sound's or film's file"] == f"{media.LARGEST >> 20} MiB"


@pytest.mark.parametrize("page", ["docs/vision.md", "docs/embeddings.md"])
def test_settings_and_examples_are_right(page, tmp_path):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"`((?:mmproj|image|mtmd|video|late|embd|max_body)_\w+)", text))
    fields = {field.name for field in FIELDS} | {"image_url", "video_url"}
    assert len(named) >= 2 and named - set(SETTINGS) - fields == set()
    for example in re.findall(r"```toml\n(.*?)```", text, re.DOTALL):
        assert load_text(example, tmp_path).model_overrides
    for example in re.findall(r"```json\n(.*?)```", text, re.DOTALL):
        asked = openai_embeddings.inputs(json.loads(example))
        assert asked.late and len(asked.items) == 2
