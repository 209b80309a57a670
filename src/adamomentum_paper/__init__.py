"""The paper's experiments, as a plugin of the lab.

They are workloads, search grids, protocols, tests of the theory, loss landscapes, and the claims.
"""
