"""Which retry policy a handler has for which exception.

Classes are compared by name along the exception's line of descent, so that a failure in a process
of its own finds the same policy. The most specific class wins.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import tenacity
from tenacity.wait import wait_base

from taskbell.shared.lifecycle import Failed, Rejected
from taskbell.shared.limits import DELAY_SECONDS
from taskbell.shared.retry import FLOOR_SECONDS, Exponential, Retry

Policy: TypeAlias = Retry | wait_base
"""One of ours, or any of tenacity's wait strategies."""

Retrying: TypeAlias = Policy | Mapping[type[BaseException], Policy]

DEFAULT = Exponential()


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait strategy of tenacity's as a policy; it rolls its own dice."""

    strategy: wait_base

    def after(self, used: int, roll: float) -> float:
        """Return what the strategy says, within bounds; the default policy's if it raises."""
        state = tenacity.RetryCallState(tenacity.Retrying(), None, (), {})
        state.attempt_number = max(used, 1)
        try:
            seconds = float(self.strategy(state))
        except Exception:  # noqa: BLE001 - whatever it is made of, a failure must be written down
            return DEFAULT.after(used, roll)
        if not seconds <= DELAY_SECONDS:
            return DELAY_SECONDS
        return max(FLOOR_SECONDS, seconds)

    def problem(self) -> str | None:
        """Trust the strategy: its answers are bounded."""
        return None


@dataclass(frozen=True, slots=True)
class Retries:
    """A handler's policies by the name of the exception's class, and what is permanent."""

    by_class: Mapping[str, Retry]
    permanent: frozenset[str]

    @classmethod
    def of(cls, retry: Retrying | None, permanent: Iterable[type[BaseException]] = ()) -> "Retries":
        """Read what a handler was registered with."""
        given = retry if isinstance(retry, Mapping) else {BaseException: retry or DEFAULT}
        return cls(
            {named(kind): _policy(policy) for kind, policy in given.items()},
            frozenset(named(kind) for kind in permanent),
        )

    def is_permanent(self, descent: Iterable[str]) -> bool:
        """Whether a failure of this class cannot be mended by another try.

        A class with a policy of its own is not, although its parent may be.
        """
        for name in descent:
            if name in self.permanent:
                return True
            if name in self.by_class:
                return False
        return False

    def after(self, descent: Iterable[str], used: int, roll: float | None = None) -> float:
        """Return the seconds until the next try; ``descent`` begins with the exception's class."""
        policy = next((self.by_class[name] for name in descent if name in self.by_class), DEFAULT)
        return policy.after(used, random.random() if roll is None else roll)  # noqa: S311 - jitter

    def judge(self, failed: Failed, used: int) -> tuple[Failed | Rejected, float]:
        """Decide what a failed try is written as, and the seconds until the next one."""
        if self.is_permanent(failed.descent):
            return Rejected(failed.diagnosis), 0.0
        return failed, self.after(failed.descent, used)

    def problems(self) -> list[str]:
        """Say what is wrong with the numbers."""
        return [problem for each in self.by_class.values() if (problem := each.problem())]


def named(kind: type[BaseException]) -> str:
    """Name a class so that another process knows it by the same name."""
    return f"{kind.__module__}.{kind.__qualname__}"


def descent(error: BaseException) -> tuple[str, ...]:
    """Name an exception's class and those it descends from, the most specific first."""
    return tuple(named(kind) for kind in type(error).__mro__ if issubclass(kind, BaseException))


def _policy(policy: Policy) -> Retry:
    return Waiting(policy) if isinstance(policy, wait_base) else policy
