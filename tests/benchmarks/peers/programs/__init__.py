"""One little program per peer. They run in the peer's environment, not in ours: no import of it."""
