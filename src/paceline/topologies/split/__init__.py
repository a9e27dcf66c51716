"""The split topology: sources run a model's first layers on their views, a trunk merges them and runs the rest."""
