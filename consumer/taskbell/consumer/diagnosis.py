"""What is kept of an exception, whatever the exception does."""

import hashlib
import traceback

import pydantic

from taskbell.consumer.retries import descent
from taskbell.shared.errors import TaskbellError
from taskbell.shared.lifecycle import Diagnosis, Failed
from taskbell.shared.limits import ERROR_BYTES, TRACEBACK_BYTES
from taskbell.shared.text import storable

_FRAMES = 30
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
        error=storable(_told(error), ERROR_BYTES),
        traceback=_tail(error),
    )


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
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    path = "\n".join(f"{frame.filename}:{frame.name}" for frame in frames)
    return hashlib.sha256(f"{name}\n{path}".encode("utf-8", "replace")).hexdigest()[:16]


def _tail(error: BaseException) -> str:
    frames = traceback.format_list(traceback.extract_tb(error.__traceback__)[-_FRAMES:])
    text = "".join(frames) + f"{type(error).__name__}: {storable(_told(error), ERROR_BYTES)}"
    return storable(text, TRACEBACK_BYTES)
