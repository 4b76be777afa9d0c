"""[[failover]]: an ordered chain of targets under one name"""

from blazar.config.setting import Setting, Table
from blazar.config.types import Int, ListOf, Text

TARGET = (
    Setting("model", Text(empty=False), None,
            doc="The model to ask for."),
    Setting("remote", Text(empty=False), None,
            doc="The [[remotes]] entry that serves it; unset = this machine."),
)

FIELDS = (
    Setting("name", Text(empty=False), None, required=True,
            doc="How the chain is called in events and admin routes."),
    Setting("alias", Text(r"\S+", like="a name without spaces", empty=False), None, required=True,
            doc="The model name that clients use."),
    Setting("min_residence_secs", Int(0, 86400), 30,
            doc="Seconds for which a failed target is passed over."),
    Setting("targets", ListOf(Table(*TARGET, what="[[failover.targets]]")), None,
            doc="The targets, in the order in which they are tried."),
)
