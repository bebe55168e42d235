"""The result of a task as it is kept: JSON, or nothing."""

from taskbell.consumer.errors import Reject
from taskbell.producer.payload import encode
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import RESULT_BYTES


class UnstorableResult(Reject):
    """The handler gave what cannot be kept; it ran, and trying again would not help."""


def storable_result(result: object, limit: int = RESULT_BYTES) -> str | None:
    """Return the JSON of a result, None for None; raises ``UnstorableResult``.

    ``limit``: so many bytes of UTF-8 at most.
    """
    if result is None:
        return None
    try:
        return encode(result, limit)
    except InvalidTask as error:  # the rules of payloads, whose words name a payload
        where = error.field.removeprefix("payload")
        raise UnstorableResult(f"the result{where}: {error.problem}") from error
