"""[[remotes]]: other servers that speak the OpenAI API"""

from blazar.config.setting import Setting
from blazar.config.types import Bool, Secret, Text

FIELDS = (
    Setting("name", Text(r"[^\s/:]+", like="a name without spaces, `/` and `:`", empty=False), None, required=True,
            doc="The prefix of its models: <name>:<model>."),
    Setting("url", Text(r"https?://\S+", like='a URL such as "https://box.example.com:8000"', empty=False), None,
            required=True,
            doc="Where it listens; plain http only for this machine and, with a warning, for private addresses."),
    Setting("key", Secret(), None, secret=True,
            doc="The API key sent to it."),
    Setting("allow_insecure_http", Bool(), False,
            doc="Send the key over plain http to a public address all the same."),
)
