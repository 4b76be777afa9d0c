"""The steps from one schema to the next, one module each, in the order of their numbers."""
