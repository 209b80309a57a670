"""How runs are specified, executed and stored.

An engine is a subclass of `Driver`: this process (`inline`), worker processes (`local`) or a
cluster (`ray`). `factory.make_engine` makes the engine with a given name. Engines report what
happens to runs as events (`events`).
"""
