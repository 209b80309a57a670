"""What the paper claims, judged by records of what was measured."""
