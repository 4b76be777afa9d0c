"""The sub-verbs of `blazar engine`, one file each; `cli/commands/engine.py` lists them."""
