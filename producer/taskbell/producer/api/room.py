"""Room in memory for contents of tasks, which may be large, and whose readers may be slow."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from taskbell.producer.api import problems

_PATIENCE: Final = 2.0
_AGAIN_SECONDS: Final = 2


@dataclass(eq=False, slots=True)
class _Turn:
    octets: int
    come: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    granted: bool = False


class Room:
    """So many octets at once; who finds no room waits for it in turn, for a short time.

    What is larger than all of the room is let in alone.
    """

    def __init__(self, octets: int, patience: float = _PATIENCE) -> None:
        self.free = octets
        """Octets that nobody has now."""
        self._all = octets
        self._patience = patience
        self._turns: deque[_Turn] = deque()

    def share(self) -> "Share":
        """A share of it, empty at first."""
        return Share(self)

    async def take(self, octets: int) -> int:
        """Return how many were taken; raises ``Problem`` (``overloaded``)."""
        octets = min(octets, self._all)
        if not self._turns and octets <= self.free:
            self.free -= octets
            return octets
        turn = _Turn(octets)
        self._turns.append(turn)
        had = False
        try:
            async with asyncio.timeout(self._patience):
                await turn.come
                had = True
        except TimeoutError:
            detail = "there are too many large contents on their way"
            raise problems.later("overloaded", _AGAIN_SECONDS, detail) from None
        finally:
            if not had:
                self._forget(turn)
        return octets

    def give(self, octets: int) -> None:
        """Give back what was taken."""
        self.free += octets
        self._let_in()

    def _forget(self, turn: _Turn) -> None:
        if turn.granted:  # just when nobody waited for it any more
            self.give(turn.octets)
        else:
            self._turns.remove(turn)
            self._let_in()

    def _let_in(self) -> None:
        while self._turns and self._turns[0].octets <= self.free:
            turn = self._turns[0]
            if turn.come.done():
                return  # given up, and about to be forgotten
            self._turns.popleft()
            self.free -= turn.octets
            turn.granted = True
            turn.come.set_result(None)


class Share:
    """What one request has of the room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._octets = 0

    async def become(self, octets: int) -> None:
        """Have so many from now on; raises ``Problem`` (``overloaded``), and has none then.

        Who needs more gives back first: nobody waits for others with what they wait for.
        """
        if octets <= self._octets:
            self._room.give(self._octets - octets)
            self._octets = octets
            return
        self.end()
        self._octets = await self._room.take(octets)

    def end(self) -> None:
        """Have none."""
        octets, self._octets = self._octets, 0
        self._room.give(octets)
