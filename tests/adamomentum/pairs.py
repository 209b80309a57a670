"""Covering arrays: grids of options without their full product."""

import itertools


def all_pairs(*groups):
    """Rows with one value of each group, such that any two values of two groups share a row.

    Greedy: the next row is the first that adds the most missing pairs.
    """

    def pairs_of(row):
        return set(itertools.combinations(enumerate(row), 2))

    groups = [list(group) for group in groups]
    rows = list(itertools.product(*(range(len(group)) for group in groups)))
    missing = set().union(*map(pairs_of, rows))
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(pairs_of(row) & missing))
        missing -= pairs_of(best)
        chosen.append(tuple(group[i] for group, i in zip(groups, best, strict=True)))
    return chosen
