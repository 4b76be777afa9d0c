"""[[mcp]]: servers whose tools a chat may use"""

from blazar.config.keys.transport import ENVIRONMENT, VARIABLE
from blazar.config.setting import Setting
from blazar.config.types import Bool, File, Int, ListOf, Text

FIELDS = (
    Setting("name", Text(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*", like="letters, digits, `-` and single `_`", empty=False),
            None, required=True,
            doc="Part of each tool's name: mcp__<name>__<tool>."),
    Setting("command", ListOf(Text(empty=False)), None,
            doc="Program and arguments of a server that speaks over stdin and stdout."),
    Setting("url", Text(r"https?://\S+", like="an http(s) URL", empty=False), None,
            doc="Address of a server that speaks Streamable HTTP."),
    Setting("timeout_secs", Int(1, 600), 30,
            doc="Seconds a tool call may take."),
    Setting("env", ENVIRONMENT, None, secret=True,
            doc="Environment variables for the program."),
    Setting("env_clear", Bool(), False,
            doc="Start the program with an empty environment."),
    Setting("allowed_env", ListOf(VARIABLE), (),
            doc="Variables that a cleared environment takes over from ours."),
    Setting("cwd", File(), None,
            doc="Working directory of the program."),
    Setting("max_output_bytes", Int(1024), None,
            doc="Bytes of the largest message taken from the program."),
)
