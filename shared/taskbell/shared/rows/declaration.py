"""The one declarative class of the schema `taskbell`, and how its rows are declared."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

from sqlalchemy import ARRAY, DateTime, Double, LargeBinary, MetaData, Text, Uuid, func
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.sql.elements import ColumnElement

__all__ = ["ROOMY", "STORAGE", "Row", "now", "table"]

STORAGE = "taskbell.storage"

ROOMY = {"fillfactor": 50}
"""For rows that are updated in place again and again: half a page free keeps the updates HOT."""


class Row(DeclarativeBase):
    """What every row class derives from; `Row.metadata` holds all tables of the schema."""

    metadata = MetaData(schema="taskbell")
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        UUID: Uuid(),
        bytes: LargeBinary(),
        datetime: DateTime(timezone=True),
        float: Double(),
        list[str]: ARRAY(Text()),
        str: Text(),
    }


def now() -> ColumnElement[datetime]:
    """Give the instant as the schema computes it: a transaction's `now()` would be stale."""
    return func.clock_timestamp()


def table(comment: str, storage: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Give the last of `__table_args__`: the table's purpose and its storage parameters.

    SQLAlchemy 2.0 refuses `postgresql_with` on a table, so the parameters are kept in
    `Table.info[STORAGE]`; the migration sets them and a test compares.
    """
    return {"comment": comment, "info": {STORAGE: dict(storage or {})}}
