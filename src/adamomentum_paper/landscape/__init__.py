"""Loss surfaces and curvature around the solutions of runs."""
