"""What a handler says about how far it is."""

from taskbell.producer.payload import encode
from taskbell.shared.errors import InvalidTask
from taskbell.shared.limits import PROGRESS_BYTES


def storable_progress(value: object) -> str:
    """Return the JSON of a progress; raises ``InvalidTask`` with the path of what is wrong."""
    try:
        return encode(value, PROGRESS_BYTES)
    except InvalidTask as error:  # the rules of payloads, whose words name a payload
        where = error.field.removeprefix("payload")
        raise InvalidTask(f"progress{where}", error.problem) from error
