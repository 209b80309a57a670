"""A race: its plan, its search, its judgement, its record."""
