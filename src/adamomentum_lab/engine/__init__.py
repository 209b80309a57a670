"""How runs are executed: what a run is, where it is stored, and who trains it.

An engine is a subclass of `Driver` in a module of its own: this process (`inline`), worker
processes (`local`) or a cluster (`ray`). `commands/race.py` starts the one that `--engine` names.
"""
