"""The workloads that come with the lab. Their data needs no download.

Each module here defines one subclass of `Workload`. To add a problem, add a file.
"""
