"""What fits where. Pure: the same inputs give the same answer."""
