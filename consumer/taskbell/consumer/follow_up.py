"""A handler's follow-up tasks; loaded by the first of them, since enqueueing knows SQLAlchemy."""

from collections.abc import Awaitable

import psycopg
from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from taskbell.producer import AsyncProducer, Enqueued, NewTask, Producer
from taskbell.producer.connection import Awaited, Blocking


def enqueue(
    connection: Blocking | Awaited, request: NewTask, owner_id: str
) -> Enqueued | Awaitable[Enqueued]:
    """Enqueue through the connection; answers an awaitable if the connection wants awaiting."""
    if isinstance(connection, Session | scoped_session | Connection | psycopg.Connection):
        return Producer(owner_id=owner_id).enqueue(connection, request)
    return AsyncProducer(owner_id=owner_id).enqueue(connection, request)
