"""The schemes of a split job: what sources send at sync points, what the trunk makes of it, and what it replies."""
