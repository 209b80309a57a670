"""What the numbers of runs say: statistics, tables, pages."""
