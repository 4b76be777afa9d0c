"""How engine builds arrive, are compared, kept, taken back and removed. Called by `blazar engine` and the daemon."""
