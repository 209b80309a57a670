"""How runs are executed: what a run is, where it is stored, and who trains it."""
