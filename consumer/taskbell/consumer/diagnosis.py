"""What is kept of an exception, whatever the exception does."""

import hashlib
import traceback
from types import FrameType
from typing import cast

import pydantic

from taskbell.consumer.retries import descent
from taskbell.shared.errors import TaskbellError
from taskbell.shared.lifecycle import Diagnosis, Failed
from taskbell.shared.limits import ERROR_BYTES, TRACEBACK_BYTES
from taskbell.shared.text import storable

_FRAMES = 30
_RELATED = 8
_CLASS_BYTES = 200


def diagnose(error: BaseException) -> Diagnosis:
    """Describe an exception in bounded, storable text; never raises.

    The fingerprint is 16 hex digits over the class and the functions it passed through, so that
    failures of one cause share it although their texts differ.
    """
    name = _name(type(error))
    return Diagnosis(
        error_class=storable(name, _CLASS_BYTES),
        fingerprint=_fingerprint(name, error),
        error=storable(_story(error), ERROR_BYTES),
        traceback=_tail(error),
    )


def _story(error: BaseException) -> str:
    """The exception's own text; a group's says nothing of what it holds, so that is added."""
    held = _held(error)[:_RELATED]
    return "; ".join([_told(error), *(f"{type(each).__name__}: {_told(each)}" for each in held)])


def describe(error: pydantic.ValidationError) -> str:
    """Say what does not fit, without quoting the values, as pydantic's own text does."""
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in problems)


def failed(error: BaseException) -> Failed:
    """Describe a failed try, with what its retry policy is chosen by."""
    return Failed(diagnose(error), descent(error))


def _name(kind: type[BaseException]) -> str:
    if issubclass(kind, TaskbellError) and kind.__module__.startswith("taskbell."):
        return f"taskbell.{kind.__qualname__}"  # whichever of our modules it lives in
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def _told(error: BaseException) -> str:
    if isinstance(error, pydantic.ValidationError):
        return describe(error)
    try:
        return str(error)
    except Exception as failure:  # noqa: BLE001 - an exception may fail at describing itself
        return f"<{type(error).__name__} whose text could not be made: {type(failure).__name__}>"


def _fingerprint(name: str, error: BaseException) -> str:
    path = [name, *map(_step, _frames(error))]
    for other in _related(error)[1:]:
        path += [type(other).__qualname__, *map(_step, _frames(other))]
    return hashlib.sha256("\n".join(path).encode("utf-8", "replace")).hexdigest()[:16]


def _frames(error: BaseException) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-_FRAMES:]


def _step(frame: FrameType) -> str:
    # Not the file: it would differ from one virtual environment to the next.
    return f"{frame.f_globals.get('__name__')}:{frame.f_code.co_qualname}"


def _related(error: BaseException) -> list[BaseException]:
    """The exception, what it holds if it is a group, and what caused it; the outer ones first."""
    found = [error]
    for each in found:
        cause = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        for other in (*_held(each), *([cause] if cause else [])):
            if not any(other is known for known in found):
                found.append(other)
        if len(found) >= _RELATED:
            break
    return found[:_RELATED]


def _held(error: BaseException) -> tuple[BaseException, ...]:
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("tuple[BaseException, ...]", error.exceptions)  # pyright: ignore[reportUnknownMemberType]


def _tail(error: BaseException) -> str:
    return storable("\n\nbehind it:\n".join(map(_one_tail, _related(error))), TRACEBACK_BYTES)


def _one_tail(error: BaseException) -> str:
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[-_FRAMES:])
    return "".join(frames) + f"{type(error).__name__}: {storable(_told(error), ERROR_BYTES)}"
