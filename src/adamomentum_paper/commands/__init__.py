"""The commands that the paper adds."""
