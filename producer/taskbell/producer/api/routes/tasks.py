"""Submit tasks, and read one."""

from taskbell.producer.api.parts import Parts
from taskbell.producer.api.route import Route


def routes(parts: Parts) -> list[Route]:
    """The routes of this module."""
    del parts
    return []
