"""The sub-verbs of `blazar rpc`."""
