"""Loss surfaces and curvature about the solutions that runs ended in."""
