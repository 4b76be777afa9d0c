"""What this machine has. What cannot be known is None; nothing is guessed."""
