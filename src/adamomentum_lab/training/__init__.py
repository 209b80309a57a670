"""Training loops that know no workload, and what they need: schedules, checkpoints."""
