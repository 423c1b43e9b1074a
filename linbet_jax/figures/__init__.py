"""Pictures of results, in one style."""
