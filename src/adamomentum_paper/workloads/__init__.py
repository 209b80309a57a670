"""The paper's experiments.

Each public module here defines one subclass of `Workload`. To add an experiment, add a file.
"""
