"""Where a key stands in a file."""

import pytest

from blazar.config.document import read

TEXT = '''# port = 0
port = 1 # one
"quoted key" = 2
long = """
port = 9
"""
[gateway]
host = "x"
[[mcp]]
name = "a"
[mcp.env]
A = "1"
[[mcp]]
name = "b"
  [mcp.env]
  A = "2"
[ model_overrides . "m:q4.0" ]
ctx = 1
dotted.inner = 5
[[failover]]
[[failover.targets]]
model = "x"
[[failover.targets]]
model = "y"
'''


@pytest.mark.parametrize(("path", "line"), [
    (("port",), 2), (("quoted key",), 3), (("gateway",), 7), (("gateway", "host"), 8), (("mcp", 0, "name"), 10),
    (("mcp", 0, "env", "A"), 12), (("mcp", 1, "name"), 14), (("mcp", 1, "env", "A"), 16),
    (("model_overrides", "m:q4.0"), 17), (("model_overrides", "m:q4.0", "ctx"), 18),
    (("model_overrides", "m:q4.0", "dotted", "inner"), 19), (("failover", 0, "targets", 1, "model"), 24),
    (("mcp", 1, "missing"), 13), (("nowhere",), None),
])
def test_line(path, line, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text(TEXT)
    assert read(file).line(path) == line
