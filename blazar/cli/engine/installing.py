"""What the sub-verbs of `blazar engine` that change builds share: the installer, and the words at the end."""

from typing import TYPE_CHECKING

from blazar.cli.context import Context
from blazar.cli.output import Progress

if TYPE_CHECKING:
    from blazar.engines.install.installer import Installer, Outcome


def installer(context: Context, progress: Progress) -> "Installer":
    from blazar.engines.install.installer import Installer, Wishes
    wishes = Wishes.configured(context.config, context.bucket)
    return Installer(context.located.paths, wishes, context.out.note, progress)


def tell(context: Context, outcome: "Outcome") -> None:
    """Say what is in use now, and let a running daemon know."""
    if outcome.changed:
        context.tell_daemon("changed", what="engines")
    if context.out.as_json:
        context.out.json(outcome.to_dict())
        return
    build = outcome.build
    if not outcome.changed:
        context.out.line(f"{build.tag} ({build.flavour}) is in use already")
        return
    back = f"; `blazar engine rollback` goes back to {outcome.before}"
    kept = outcome.before and outcome.before not in outcome.removed
    context.out.line(f"{build.tag} ({build.flavour}) is in use now{back if kept else ''}")
    for tag in outcome.removed:
        context.out.line(f"removed {tag}, which is beyond keep_tags")
    loaded = [child["model"] for child in (context.daemon or {}).get("children", ())]
    if loaded:
        context.out.note(f"{', '.join(loaded)} keeps the build it was loaded with until it is unloaded (`blazar stop`)")
    if context.env.get("BLAZAR_ENGINE_PATH"):
        context.out.note("BLAZAR_ENGINE_PATH is set here: a daemon with it uses that engine instead")
