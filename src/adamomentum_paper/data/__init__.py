"""Readers of data sets, independent of the workloads."""
