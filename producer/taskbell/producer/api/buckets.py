"""Rates of owners and keys, one bucket for all replicas.

Tokens are taken from the database before they are spent, a portion at a time, so that all replicas
together never admit more than burst and rate allow, and a busy one asks ten times a second instead
of for each request.
"""

import asyncio
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from taskbell.producer.api.principal import Principal
from taskbell.producer.gate import UNRATED_SECONDS
from taskbell.shared.admission import Portion, seconds_until_tokens
from taskbell.shared.array import array, quoted
from taskbell.shared.connections import Runner
from taskbell.shared.errors import DatabaseAway, RateLimited
from taskbell.shared.statements.admission import TAKE

_REMEMBERED: Final = 10_000


class _Name(NamedTuple):
    scope: Literal["owner", "key"]
    name: str


class Buckets:
    """Takes tokens before tasks are submitted.

    ``roll`` (0…1) spreads who comes back; ``clock`` counts seconds.
    """

    def __init__(
        self,
        runner: Runner,
        roll: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runner = runner
        self._roll = roll
        self._clock = clock
        self._portions: OrderedDict[_Name, Portion] = OrderedDict()
        self._unlimited: OrderedDict[_Name, float] = OrderedDict()
        self._asking: dict[str, asyncio.Future[None]] = {}

    async def take(self, principal: Principal, count: int) -> None:
        """Take a token for each task from the owner's bucket and the key's, or from neither.

        Whoever has no limit costs nothing but a look each five seconds. Raises ``RateLimited``,
        ``DatabaseAway``.
        """
        names = [_Name("owner", principal.owner_id)]
        if principal.key is not None:
            names.append(_Name("key", principal.key))
        # One asks. Those who wait meanwhile spend what it brings, or fail with it: one after the
        # other would each wait for an answer that does not come.
        while not self._spent(names, count):
            asking = self._asking.get(principal.owner_id)
            if asking is None:
                return await self._ask_for_all(principal.owner_id, names, count)
            await asyncio.shield(asking)
        return None

    async def _ask_for_all(self, owner_id: str, names: Sequence[_Name], count: int) -> None:
        asking = self._asking[owner_id] = asyncio.get_running_loop().create_future()
        try:
            await self._ask(names, count)
        except DatabaseAway as error:
            asking.set_exception(error)
            asking.exception()  # seen, also if nobody waits
            raise
        finally:
            del self._asking[owner_id]
            if not asking.done():
                asking.set_result(None)

    def _spent(self, names: Sequence[_Name], count: int) -> bool:
        """Spend what is here, if it is enough; raises ``RateLimited`` if it is known not to be."""
        now = self._clock()
        limited = [name for name in names if not self._is_unlimited(name, now)]
        for name in limited:
            portion = self._portions.get(name)
            there = None if portion is None else portion.lacking(count, now)
            if portion is not None and there is not None:
                raise self._refusal(name, count, there, portion.rate)
        if not all(self._holds(name, count, now) for name in limited):
            return False
        self._spend(limited, count)
        return True

    async def _ask(self, names: Sequence[_Name], count: int) -> None:
        now = self._clock()
        limited = [name for name in names if not self._is_unlimited(name, now)]
        held = [name for name in limited if self._holds(name, count, now)]
        lacking = [name for name in limited if name not in held]
        # Spent before the others are asked for: whoever comes meanwhile must not spend it, too.
        self._spend(held, count)
        taken = False
        try:
            rows = await self._runner.run(
                TAKE,
                scopes=array(str, [name.scope for name in lacking]),
                names=array(quoted, [name.name for name in lacking]),
                count=float(count),
            )
            self._note(lacking, {_Name(row.scope, row.name): row for row in rows}, count, now)
            taken = True
        finally:
            if not taken:
                self._spend(held, -count)

    def _note(
        self, asked: Sequence[_Name], found: Mapping[_Name, Any], count: int, now: float
    ) -> None:
        """Keep what was taken and spend ``count`` of it; raises ``RateLimited`` if nothing was."""
        for name in asked:
            if name not in found:
                self._portions.pop(name, None)
                _remember(self._unlimited, name, now)
        short = [(name, row) for name, row in found.items() if row.tokens < count]
        for name, row in short:
            _remember(self._portions, name, Portion(row.tokens, row.rate, now, refused=True))
        if short:
            name, row = short[0]
            raise self._refusal(name, count, row.tokens, row.rate)
        for name, row in found.items():
            before = self._portions.get(name)
            left = before.tokens if before is not None and before.covers(0, now) else 0.0
            _remember(self._portions, name, Portion(row.portion - count + left, row.rate, now))

    def _is_unlimited(self, name: _Name, now: float) -> bool:
        known_at = self._unlimited.get(name)
        return known_at is not None and 0.0 <= now - known_at < UNRATED_SECONDS

    def _holds(self, name: _Name, count: int, now: float) -> bool:
        portion = self._portions.get(name)
        return portion is not None and portion.covers(count, now)

    def _spend(self, names: Iterable[_Name], count: int) -> None:
        for name in names:
            portion = self._portions.get(name)
            if portion is not None and not portion.refused:
                portion.tokens -= count

    def _refusal(self, name: _Name, count: int, there: float, rate: float) -> RateLimited:
        return RateLimited(
            name.scope, name.name, seconds_until_tokens(count, there, rate, self._roll())
        )


T = TypeVar("T")


def _remember(memory: OrderedDict[_Name, T], name: _Name, what: T) -> None:
    """Keep it, and forget what was kept longest ago."""
    memory[name] = what
    memory.move_to_end(name)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
