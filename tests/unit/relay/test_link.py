"""What a connection to RabbitMQ remembers of queues is bounded."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from taskbell.relay import publisher
from taskbell.relay.publisher import Link


async def test_the_queue_declared_longest_ago_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publisher, "_MOST_REMEMBERED", 2)
    link = Link(*(cast("Any", SimpleNamespace(close_callbacks=set[object]())) for _ in range(4)))

    for queue in ("a", "b", "c"):
        link.remember(queue)

    assert list(link.declared) == ["b", "c"]
