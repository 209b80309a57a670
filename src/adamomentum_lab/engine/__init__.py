"""How runs are executed: what a run is, where it is stored, and who trains it.

An engine is a subclass of `Driver` in a module of its own: this process (`inline`), worker
processes (`local`) or a cluster (`ray`); `factory.make_engine` makes the one of a name. What
happens to runs is told as events (`events`).
"""
