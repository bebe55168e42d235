"""Other systems, each in an environment of its own, doing the same no-op work."""
