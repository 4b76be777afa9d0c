"""docs/semantic-cache.md: its configuration is the default one but for being on, and its numbers are the code's."""

import re
from pathlib import Path

from blazar.config.frozen import thaw
from blazar.config.registry import SETTINGS
from blazar.proxy.answer_cache import MOST_BYTES
from blazar.proxy.question import LONGEST_TEXT
from blazar.proxy.stages.semantic_cache import BYPASS, HIT, MISS
from tests.support.config_files import load_text

PAGE = (Path(__file__).parent.parent.parent / "docs" / "semantic-cache.md").read_text()


def test_the_page_and_the_code_agree(tmp_path):
    config = load_text(re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)[1], tmp_path)
    assert config.warnings == ()
    assert thaw(config.semantic_cache) == {**SETTINGS["semantic_cache"].default, "enabled": True}
    assert f"{MOST_BYTES >> 20} MiB" in PAGE and f"{LONGEST_TEXT} characters" in PAGE
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [HIT, MISS, BYPASS]
