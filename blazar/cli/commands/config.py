"""`blazar config`: what is configured, what that means, and how to change it. Its sub-verbs stand in `cli/config/`."""

from blazar.cli.command import CommandGroup
from blazar.cli.config.check import Check
from blazar.cli.config.defaults import Defaults
from blazar.cli.config.edit import Edit
from blazar.cli.config.get import Get
from blazar.cli.config.list import List
from blazar.cli.config.set import Set
from blazar.cli.config.unset import Unset


class Config(CommandGroup):
    name = "config"
    help = "Show, check and change the configuration"
    about = ("Works on this machine's own settings file. A file that a daemon would refuse is never written, and what "
             "you wrote around a setting stays as it is. `blazar config ACTION --help` has more examples.")
    examples = ("blazar config list --changed", "blazar config get default_ctx", "blazar config set default_ctx 32768",
                "blazar config set model_overrides.qwen3-8b.ctx 8192", "blazar config unset default_ctx",
                "blazar config edit", "blazar config check ~/.config/blazar/config.toml",
                "blazar config defaults > config.toml")
    subverbs = (List(), Get(), Set(), Unset(), Edit(), Check(), Defaults())
