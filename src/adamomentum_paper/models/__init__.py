"""Networks, independent of optimizers and workloads."""
