"""Watches tasks for those who wait for them: one statement for all of them."""


class Watcher:
    """Tells followers of each change they can still see."""
