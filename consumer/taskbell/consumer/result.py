"""The result of a task as it is kept: JSON, or nothing."""

from taskbell.consumer.errors import Reject
from taskbell.producer.payload import encode
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import RESULT_BYTES


class UnstorableResult(Reject):
    """The handler gave what cannot be kept; it ran, and trying again would not help."""


def storable_result(result: object) -> str | None:
    """Return the JSON of a result, None for None; raises ``UnstorableResult``."""
    if result is None:
        return None
    try:
        return encode(result, RESULT_BYTES)
    except InvalidTask as error:  # the rules of payloads, whose words name a payload
        where = error.field.removeprefix("payload")
        raise UnstorableResult(f"the result{where}: {error.problem}") from error
