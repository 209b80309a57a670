"""What a run is, where it is kept, and how many are executed."""
