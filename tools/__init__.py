"""Scripts of this repository: they keep records, and fill pages from them."""
