"""The mathematics of comparisons: numbers in, numbers out."""
