"""What a command prints: a table for people, JSON for programs, the same values in both."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = ["Output", "OutputFormat", "fields_of", "say", "show_many", "show_one"]

# Not cut to a terminal's width where there is none: a pipe wants whole words.
_WIDTH_OF_A_PIPE = 240
_LONGEST_CELL = 100


class OutputFormat(StrEnum):
    """How to print."""

    TABLE = "table"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="For people or for programs.")]


def fields_of(row: Any) -> dict[str, object]:
    """Give a dataclass's fields by name."""
    return asdict(row)


def say(sentence: str, fields: Mapping[str, object], how: Output) -> None:
    """Print what was done: a sentence, or its fields as JSON."""
    typer.echo(_json(dict(fields)) if how is OutputFormat.JSON else _printable(sentence))


def show_many(rows: Sequence[Mapping[str, object]], columns: Sequence[str], how: Output) -> None:
    """Print rows: all their fields as a JSON array, or these columns as a table."""
    if how is OutputFormat.JSON:
        typer.echo(_json(list(rows)))
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row[name])) for name in columns))
    _console().print(table)


def show_one(sentence: str | None, fields: Mapping[str, object], how: Output) -> None:
    """Print one thing: a sentence above its fields; in JSON the sentence is a field."""
    if how is OutputFormat.JSON:
        typer.echo(_json(({} if sentence is None else {"sentence": sentence}) | dict(fields)))
        return
    if sentence is not None:
        typer.echo(_printable(sentence))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fields.items():
        if value is not None:
            table.add_row(name.replace("_", " "), Text(_printable(_words(value))))
    _console().print(table)


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_PIPE, highlight=False)


def _cell(value: object) -> str:
    line = " ".join(_printable(_words(value)).split())
    return line if len(line) <= _LONGEST_CELL else line[: _LONGEST_CELL - 1] + "…"


def _words(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case datetime():
            return value.isoformat(sep=" ", timespec="seconds")
        case str() | int() | UUID():
            return str(value)
        case _:
            return _json(value)


def _printable(text: str) -> str:
    """Without what would steer a terminal: an error's text is a stranger's."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def _json(value: object) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False, indent=2)


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
