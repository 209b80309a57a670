"""The paper as a plugin of the lab: workloads, grids, protocols, theory, landscapes, claims."""
