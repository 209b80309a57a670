"""The paper as a plugin of the lab: workloads, grids, rules, theory, landscapes, claims."""
