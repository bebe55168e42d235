"""What an operator sets is checked before anything starts."""

import pydantic
import pytest

from taskbell.consumer.settings import ConsumerSettings
from taskbell.shared.settings import sentence

URL = "postgresql://user:secret@host/database"


def test_queues_are_split_and_each_is_kept_once() -> None:
    assert ConsumerSettings.read(database_url=URL, queues=" a, b,,a ").queues == ("a", "b")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"queues": "amq.x"}, "TASKBELL_QUEUES"),
        ({"queues": "x" * 201}, "TASKBELL_QUEUES"),
        ({"slots": 0}, "TASKBELL_SLOTS"),
        ({"grace": -1}, "TASKBELL_GRACE"),
        ({"poll_interval": 0}, "TASKBELL_POLL_INTERVAL"),
        ({"amqp_url": "http://user:secret@host/"}, "TASKBELL_AMQP_URL"),
        ({"amqp_url": "amqp://user:secret@host:port/"}, "TASKBELL_AMQP_URL"),
        ({"amqp_url": "amqp:"}, "TASKBELL_AMQP_URL"),
    ],
)
def test_what_is_wrong_is_named_without_its_value(given: dict[str, object], problem: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        ConsumerSettings.read(database_url=URL, **given)

    assert problem in sentence(caught.value)
    assert "secret" not in sentence(caught.value)
