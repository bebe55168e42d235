"""Storage: payloads and results that are too large for a row, as objects."""

from taskbell.shared.storage.location import Location
from taskbell.shared.storage.storage import Storage

__all__ = ["Location", "Storage"]
