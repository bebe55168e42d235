"""The payload as canonical JSON, refused before it can break the caller's transaction."""

import json
import math
from collections.abc import Iterable, Iterator
from typing import NoReturn, cast

from taskbell.producer.rules import unstorable
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import INTEGER_BITS, PAYLOAD_DEPTH

_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True
)
_LARGEST = (1 << INTEGER_BITS - 1) - 1
_SMALLEST = -_LARGEST - 1
_SHOWN = 40
# What is this small is encoded first and searched for trouble afterwards, which is faster.
_SMALL_DEPTH = 3
_SMALL_COUNT = 16
_SMALL_TEXT = 1024
_WRITTEN_NUL = "\\u0000"

Step = str | int
"""A key of an object or a place in an array."""


def encode(payload: object, limit: int) -> str:
    """Return JSON with sorted keys and no spaces, of at most ``limit`` bytes of UTF-8.

    Raises ``InvalidTask`` with the path of the first value that is not plain JSON, that Postgres
    cannot store or that readers in other languages would change.
    """
    text = _encode_small(payload)
    if text is None:
        _Walk(limit).check(payload)
        # Known to be finite by now: neither cyclic nor one small array shared a million times.
        text = _ENCODER.encode(payload)
    require_size(text, limit)
    return text


def _encode_small(payload: object) -> str | None:
    """Encode what is plainly harmless; None if each value must be looked at."""
    if not _is_small(payload, _SMALL_DEPTH):
        return None
    try:
        text = _ENCODER.encode(payload)
    except ValueError:  # a number that is not finite
        return None
    doubtful = _WRITTEN_NUL in text or not (text.isascii() or unstorable(text) is None)
    return None if doubtful else text


def _is_small(value: object, depth: int) -> bool:
    """Whether a value holds exact JSON types only, few of them, and cannot be cyclic."""
    kind = type(value)
    if kind is str:
        return len(cast("str", value)) <= _SMALL_TEXT
    if kind is int:
        return _SMALLEST <= cast("int", value) <= _LARGEST
    if kind is dict:
        pairs = cast("dict[object, object]", value)
        return (
            depth > 0
            and len(pairs) <= _SMALL_COUNT
            and all(type(key) is str and len(key) <= _SMALL_TEXT for key in pairs)
            and _are_small(pairs.values(), depth - 1)
        )
    if kind is list:
        array = cast("list[object]", value)
        return depth > 0 and len(array) <= _SMALL_COUNT and _are_small(array, depth - 1)
    return value is None or kind is float or kind is bool


def _are_small(values: Iterable[object], depth: int) -> bool:
    for each in values:  # noqa: SIM110 - a generator would cost as much as the looks
        if not _is_small(each, depth):
            return False
    return True


def require_size(encoded: str, limit: int) -> None:
    """Refuse JSON of more than ``limit`` bytes of UTF-8."""
    size = len(encoded) if encoded.isascii() else len(encoded.encode())
    if size > limit:
        raise InvalidTask("payload", f"{size} bytes of JSON, at most {limit} are allowed")


class _Walk:
    """One visit of every value, without recursion.

    Counts the bytes the JSON takes at least, and so ends early on whatever is too large.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._path: list[Step] = []

    def check(self, payload: object) -> None:
        inside = self._visit(payload)
        opened = [] if inside is None else [inside]
        while opened:
            step, value = next(opened[-1], (None, None))
            if step is None:
                opened.pop()
                continue
            self._path[len(opened) - 1 :] = [step]
            inside = self._visit(value)
            if inside is not None:
                if len(opened) >= PAYLOAD_DEPTH:
                    self._refuse(f"nested deeper than {PAYLOAD_DEPTH} arrays and objects")
                opened.append(inside)

    def _visit(self, value: object) -> Iterator[tuple[Step, object]] | None:
        """Check a value; what it contains is returned, for later."""
        match value:
            case None | bool():
                self._count(4)
            case str():
                self._count_text(value)
            case int() | float():
                self._visit_number(value)
            case dict():
                return self._visit_object(cast("dict[object, object]", value))
            case list() | tuple():
                array = cast("list[object] | tuple[object, ...]", value)
                self._count(max(2, len(array) + 1))
                return enumerate(array)
            case _:
                self._refuse(
                    f"{type(value).__name__} is not a JSON type; write it as text or number, "
                    "or declare a TypedTask, which does"
                )
        return None

    def _visit_number(self, value: float) -> None:
        self._count(1)
        if isinstance(value, int):
            if not _SMALLEST <= value <= _LARGEST:
                self._refuse(f"an integer beyond {INTEGER_BITS} bits")
        elif not math.isfinite(value):
            self._refuse("not a finite number")

    def _visit_object(self, value: dict[object, object]) -> Iterator[tuple[Step, object]]:
        self._count(2 + 2 * len(value))
        for key in value:
            if not isinstance(key, str):
                self._refuse(f"has a key that is not text but {type(key).__name__}")
            self._count_text(key, "has a key that ")
        return iter(cast("dict[str, object]", value).items())

    def _count_text(self, text: str, whose: str = "") -> None:
        # Counted first: a text that is too long need not be searched.
        self._count(len(text) + 1)
        if problem := unstorable(text):
            self._refuse(whose + problem)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limit:
            raise InvalidTask("payload", f"more than {self._limit} bytes of JSON")

    def _refuse(self, problem: str) -> NoReturn:
        raise InvalidTask("payload" + "".join(map(_written, self._path)), problem)


def _written(step: Step) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step.isidentifier() and len(step) <= _SHOWN:
        return f".{step}"
    return f"[{json.dumps(step if len(step) <= _SHOWN else step[:_SHOWN] + '…')}]"
