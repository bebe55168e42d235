"""Every route there is. A module for each kind; a new one is one more name here."""

from taskbell.producer.api.parts import Parts
from taskbell.producer.api.route import Route
from taskbell.producer.api.routes import (
    contents,
    control,
    dead_letters,
    events,
    health,
    listing,
    queues,
    tasks,
)

_MODULES = (tasks, listing, control, events, contents, dead_letters, queues, health)


def all_routes(parts: Parts) -> list[Route]:
    """Every route, in the order of the documentation."""
    return [route for module in _MODULES for route in module.routes(parts)]
