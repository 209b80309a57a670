"""The paper's experiments.

A module here whose name does not begin with `_` defines one subclass of `Workload`; adding an
experiment is adding a file.
"""
