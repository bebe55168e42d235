"""What the routes are made of."""

from dataclasses import dataclass, field

from taskbell.producer.api.buckets import Buckets
from taskbell.producer.api.cursor import Cursors
from taskbell.producer.api.front import Traffic
from taskbell.producer.api.gatekeeper import Gatekeeper
from taskbell.producer.api.metrics import Metrics
from taskbell.producer.api.registrar import Registrar
from taskbell.producer.api.settings import ApiSettings
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
