"""The workloads that come with the lab, on data that is always there.

A module here defines one subclass of `Workload`; adding a problem is adding a file.
"""
