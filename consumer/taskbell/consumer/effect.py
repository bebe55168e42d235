"""The effect as a handler uses it: ``async with`` on the loop, ``with`` in a thread."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

from taskbell.consumer.errors import InvalidEffect
from taskbell.consumer.fence import Fence
from taskbell.consumer.transaction import AsyncTransaction, Transaction, follow, follow_async

A = TypeVar("A")
S = TypeVar("S")


class Effect(Generic[A, S]):
    """Business rows that commit with the settlement of their task, or not at all.

    Enter it once. The block gets a session or a connection and must not commit or roll back
    itself; savepoints are fine. Leaving the block settles the task as COMPLETED and commits.
    Raises ``LeaseLost`` when somebody else holds the task: nothing was written. Whatever the block
    raises rolls everything back and goes on upwards.
    """

    result: object = None
    """The task's result, to be set before the block ends; JSON values of at most 1 MiB."""

    def __init__(
        self,
        fence: Fence,
        open_async: Callable[[], AsyncTransaction[A]],
        open_blocking: Callable[[], Transaction[S]],
    ) -> None:
        self._fence = fence
        self._open_async = open_async
        self._open_blocking = open_blocking
        self._awaited: AsyncTransaction[A] | None = None
        self._blocking: Transaction[S] | None = None

    async def __aenter__(self) -> A:
        transaction = self._open_async()
        await follow_async(self._fence.begin(), transaction)
        self._awaited = transaction
        return transaction.handed

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        transaction = self._awaited
        if transaction is None:
            raise InvalidEffect("the effect was not entered")
        plan = self._fence.end(self.result) if error is None else self._fence.abandon(error)
        await follow_async(plan, transaction)

    def __enter__(self) -> S:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise InvalidEffect("it would block the event loop: write async with")
        transaction = self._open_blocking()
        follow(self._fence.begin(), transaction)
        self._blocking = transaction
        return transaction.handed

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        transaction = self._blocking
        if transaction is None:
            raise InvalidEffect("the effect was not entered")
        plan = self._fence.end(self.result) if error is None else self._fence.abandon(error)
        follow(plan, transaction)
