"""Readers of data sets. They know no workload."""
