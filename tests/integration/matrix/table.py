"""The rules as a text that a reader can check, and in which a change of behaviour shows.

It is written anew by ``PYTHONPATH=tests:compose python -m integration.matrix.table``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from integration.matrix.meeting import PAIRS, SECONDS, opened, outcome
from integration.matrix.rules import RULES
from integration.matrix.states import STARTS, State

PLACE: Final = Path(__file__).with_name("table.txt")

HEAD: Final = """\
What must come of two operations that meet on one task.

The first (a row of the square) is done and its transaction still open when the second (a column)
comes. "effect begun" and "effect locked" have written, and settle only when the second has come.

  W  the second waits until the first has ended     .  neither is in the other's way
  s  the second passes by the locked row            -  neither has anything to do
  L  the second goes on, and the first, which comes to its end later, has lost its lease

"Alone" is what each does to the task by itself. Below it: what both answer, and where the task is
at last. At a dot both answer and do what they do alone. If the first rolls back instead, whoever
waited for it or went on does what it does alone, and whoever passed by has done nothing.

A state reads: status, attempt, tries used, and what there is besides.
"""


def text() -> str:
    """Return the whole table."""
    return "\n".join([HEAD, *(line for name in STARTS for line in _section(name)), ""])


def _section(name: str) -> Iterator[str]:
    start, meaning = STARTS[name]
    yield from ("", f"== {name}: {meaning}", f"   {start}", "")
    yield f"   {'':14}" + " ".join(f"{second:9}" for second in SECONDS).rstrip()
    for first in RULES:
        marks = (_mark(first, second, start) for second in SECONDS)
        yield f"   {first:14}" + " ".join(f"{mark:9}" for mark in marks).rstrip()
    yield from ("", "   alone")
    yield from (_alone(operation, start) for operation in SECONDS)
    met = [_meeting(*pair, start) for pair in PAIRS if _mark(*pair, start) in "WsL"]
    yield from ("", *met) if met else ()


def _mark(first: str, second: str, start: State) -> str:
    one, two = opened(RULES[first], start), RULES[second].run(start, "b")
    if one.holds & two.wants:
        return "W" if outcome(first, second, start, commits=True).how == "waits" else "s"
    if not one.holds and not two.wants:
        return "-"
    came = outcome(first, second, start, commits=True)
    return "." if came.first == RULES[first].run(start, "a").answer else "L"


def _alone(operation: str, start: State) -> str:
    ran = RULES[operation].run(start, "b")
    changed = f"-> {ran.state}" if ran.wants else ""
    return f"   {operation:14}{ran.answer:20} {changed}".rstrip()


def _meeting(first: str, second: str, start: State) -> str:
    came = outcome(first, second, start, commits=True)
    how = {"W": "waits", "s": "passes by", "L": "goes on"}[_mark(first, second, start)]
    both = f"{first}, {second} {how}"
    return f"   {both:35}{f'{came.first}, {came.second}':32} -> {came.state}"


if __name__ == "__main__":
    PLACE.write_text(text(), encoding="utf-8")
