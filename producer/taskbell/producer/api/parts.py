"""What the routes are made of."""

from dataclasses import dataclass, field
from functools import cached_property

from taskbell.producer.api.buckets import Buckets
from taskbell.producer.api.cursor import Cursors
from taskbell.producer.api.front import Traffic
from taskbell.producer.api.gatekeeper import Gatekeeper
from taskbell.producer.api.metrics import Metrics
from taskbell.producer.api.registrar import Registrar
from taskbell.producer.api.room import Room
from taskbell.producer.api.settings import ApiSettings
from taskbell.producer.api.streams import Streams
from taskbell.producer.api.watcher import Watcher
from taskbell.shared.connections import Connections
from taskbell.shared.events import Observer
from taskbell.shared.sealing import Seals
from taskbell.shared.storage import Storage


@dataclass(frozen=True)
class Parts:
    """Everything a route may use; made once, by ``server`` or by a test."""

    settings: ApiSettings
    connections: Connections
    gatekeeper: Gatekeeper
    producer: Registrar
    buckets: Buckets
    watcher: Watcher
    metrics: Metrics
    cursors: Cursors
    observe: Observer
    seals: Seals | None = None
    storage: Storage | None = None
    traffic: Traffic = field(default_factory=Traffic)

    @cached_property
    def room(self) -> Room:
        """Room for the contents of tasks."""
        return Room(self.settings.api_content_bytes)

    @cached_property
    def streams(self) -> Streams:
        """The places of those who stay."""
        settings = self.settings
        return Streams(self.metrics, settings.api_streams, settings.api_owner_streams)
