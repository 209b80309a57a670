"""Step time and memory of optimizers."""
