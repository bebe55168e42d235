"""What enqueue refuses to write through, before it writes."""

from typing import Any

import pytest
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from taskbell.producer import AsyncProducer, Producer, UnsupportedConnection


@pytest.mark.parametrize("stranger", [None, "postgresql://localhost/shop", object()])
async def test_what_is_no_connection_is_refused_with_what_is_accepted(stranger: Any) -> None:
    with pytest.raises(UnsupportedConnection, match="Producer accepts a SQLAlchemy Session"):
        Producer().enqueue(stranger, "t")
    with pytest.raises(UnsupportedConnection, match="AsyncProducer an AsyncSession"):
        await AsyncProducer().enqueue(stranger, "t")


async def test_each_producer_points_to_the_other() -> None:
    awaited: Any = AsyncSession()
    blocking: Any = Session()

    with pytest.raises(UnsupportedConnection, match="use AsyncProducer"):
        Producer().enqueue(awaited, "t")
    with pytest.raises(UnsupportedConnection, match="use Producer"):
        await AsyncProducer().enqueue(blocking, "t")


def test_another_database_is_refused() -> None:
    with (
        Session(create_engine("sqlite://")) as session,
        pytest.raises(UnsupportedConnection, match=r"sqlite\+pysqlite.*postgresql\+psycopg"),
    ):
        Producer().enqueue(session, "t")


def test_a_session_without_an_engine_is_refused() -> None:
    with Session() as session, pytest.raises(UnsupportedConnection, match="which engine"):
        Producer().enqueue(session, "t")


def test_the_engine_itself_is_refused() -> None:
    engine: Any = create_engine("sqlite://")

    with pytest.raises(UnsupportedConnection, match="Engine"):
        Producer().enqueue(engine, "t")
