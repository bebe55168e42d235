"""Reads the hand-written SQL of a revision, statement by statement."""

from importlib.resources import files


def statements(name: str) -> tuple[str, ...]:
    """Guarantee the statements of `sql/<name>` in order; each ends with a semicolon at line end."""
    text = files("taskbell.shared.migrations").joinpath("sql", name).read_text(encoding="utf-8")
    return tuple(part.strip() for part in text.split(";\n") if part.strip())
