"""[[alias]]: another name for a model, with a preset"""

from blazar.config.setting import Setting
from blazar.config.types import Anything, ListOf, MapOf, Text

FIELDS = (
    Setting("name", Text(r"[^\s/]+", like="a name without spaces", empty=False), None, required=True,
            doc="The name that clients use."),
    Setting("model", Text(empty=False), None, required=True,
            doc="The model it stands for."),
    Setting("set", MapOf(Anything()), None,
            doc="Request fields that are set when the caller did not."),
    Setting("strip", ListOf(Text(empty=False)), (),
            doc="Request fields that are taken out."),
)
