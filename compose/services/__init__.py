"""Finds or starts the services taskbell needs, for the demo and the tests alike."""

from services.certificate import Certificate
from services.guarded import ServiceError
from services.pooler import Pooler
from services.postgres import Postgres
from services.queue_state import QueueState
from services.rabbitmq import RabbitMQ
from services.resolution import open_postgres, open_rabbitmq

__all__ = [
    "Certificate",
    "Pooler",
    "Postgres",
    "QueueState",
    "RabbitMQ",
    "ServiceError",
    "open_postgres",
    "open_rabbitmq",
]
