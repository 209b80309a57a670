"""Training loops for any workload, their checkpoints, and the feeding of batches."""
