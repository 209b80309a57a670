"""The workloads that come with the lab, one file each, on data that is always there."""
