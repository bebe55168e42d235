"""Room for contents: in turn, for a short time, and never lost."""

import asyncio

import pytest

from taskbell.producer.api.problems import Problem
from taskbell.producer.api.room import Room

LONG = 600.0


async def test_who_finds_no_room_gets_it_in_turn() -> None:
    room = Room(10, LONG)
    first, large, small = room.share(), room.share(), room.share()
    await first.become(8)
    waiting = [asyncio.ensure_future(large.become(6)), asyncio.ensure_future(small.become(2))]
    await asyncio.sleep(0)

    assert not any(each.done() for each in waiting)  # the small one does not overtake
    first.end()
    await asyncio.gather(*waiting)
    assert room.free == 2
    large.end()
    small.end()
    assert room.free == 10


async def test_who_waits_too_long_is_told_to_come_back_and_lets_others_in() -> None:
    room = Room(10, 0.01)
    taken = await room.take(4)

    with pytest.raises(Problem, match="overloaded"):
        await room.take(8)

    assert await room.take(6) == 6
    room.give(6 + taken)
    assert room.free == 10


async def test_who_goes_away_takes_no_room_along() -> None:
    room = Room(10, LONG)
    await room.take(10)
    impatient, second, unlucky = (asyncio.ensure_future(room.take(8)) for _ in range(3))
    await asyncio.sleep(0)
    impatient.cancel()
    room.give(8)  # before it is noticed that the first of them is gone
    await asyncio.wait({impatient})
    assert await second == 8
    room.give(8)
    unlucky.cancel()  # just let in, and has not noticed
    await asyncio.wait({unlucky})

    assert unlucky.cancelled()
    assert room.free == 8


async def test_a_share_grows_shrinks_and_is_let_in_alone_if_it_is_larger_than_all() -> None:
    room = Room(10, LONG)
    share = room.share()

    for octets, free in ((4, 6), (25, 0), (3, 7), (0, 10)):
        await share.become(octets)
        assert room.free == free
    share.end()
    share.end()
    assert room.free == 10
