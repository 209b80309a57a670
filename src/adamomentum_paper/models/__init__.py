"""Networks. They know no optimizer and no workload."""
