"""What is written reaches its client in order, in as few pieces as it can, and before the end."""

import asyncio
from typing import Any

import pytest

from taskbell.producer.api.lingering import Lingering

LARGE = b"x" * 4097


class Recorder(asyncio.Transport):
    """The transport below: what was done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.done: list[bytes | str] = []

    def write(self, data: Any) -> None:
        self.done.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.done.append("closed")

    def is_closing(self) -> bool:
        return "closed" in self.done


@pytest.fixture
def below() -> Recorder:
    """What is below."""
    return Recorder()


@pytest.fixture
def above(below: Recorder) -> Lingering:
    """What the server writes to, when its client sends nothing."""
    return Lingering(below, lambda: False, 1.0, 1.0)


async def test_a_head_and_its_body_are_sent_together(above: Lingering, below: Recorder) -> None:
    above.write(b"head")
    above.write(b"body")
    assert below.done == [b"headbody"]
    await asyncio.sleep(0)
    assert below.done == [b"headbody"], "and nothing twice"


async def test_a_head_alone_is_sent_in_the_next_turn(above: Lingering, below: Recorder) -> None:
    above.write(b"head")
    assert below.done == []
    await asyncio.sleep(0)
    assert below.done == [b"head"]


async def test_what_is_large_is_sent_at_once(above: Lingering, below: Recorder) -> None:
    above.write(LARGE)
    above.write(b"head")
    above.write(LARGE)
    assert below.done == [LARGE, b"head" + LARGE]


async def test_what_is_held_is_sent_before_the_end(above: Lingering, below: Recorder) -> None:
    above.write(b"head")
    above.close()
    above.write(b"too late")
    await asyncio.sleep(0)
    assert below.done == [b"head", "closed"]


async def test_what_is_held_when_the_connection_ends_is_not_sent(
    above: Lingering, below: Recorder
) -> None:
    above.write(b"head")
    above.lost()
    above.write(b"body")
    await asyncio.sleep(0)
    assert below.done == []
