"""What each operation must do to a task that it has to itself, and which rows it does it with.

Derived from the promise and the invariants, not from the statements: each is a function of the
state.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from integration.matrix.states import ATTEMPT, FINAL, MAX_ATTEMPTS, Lease, State
from taskbell.shared.lifecycle import Verdict, next_status

Rows = frozenset[str]
NONE: Final[Rows] = frozenset()


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of an operation that had the task to itself."""

    answer: str
    state: State
    wants: Rows = NONE
    """Whose rows it must have to itself."""
    holds: Rows = NONE
    """Whose rows nobody else can have until its transaction ends."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An operation."""

    run: Callable[[State, str], Ran]
    """From the state and the name of the session, which is the worker's name in a claim."""
    skipped: str | None = None
    """Its answer when it passes by a locked row; None: it waits for the row."""
    begin: Callable[[State], Ran] | None = None
    """What was done when it stopped halfway, for one that does."""


def claim(state: State, who: str) -> Ran:
    """Take the lease of a due task; the attempt grows with it."""
    if not state.entry:
        return Ran("nothing", state)
    attempt = state.attempt + 1
    claimed = replace(
        state, status="IN_PROGRESS", attempt=attempt, entry=False, lease=Lease(who, attempt)
    )
    return _locking(f"attempt {attempt}", claimed, "entry", "task")


def heartbeat(state: State, _who: str) -> Ran:
    """Extend the lease, even one that has run out: the row's presence is the truth."""
    if not state.held or state.lease is None:
        return Ran("lost", state)
    beaten = replace(state, lease=replace(state.lease, expired=False))
    return _locking("cancel" if state.lease.asked else "held", beaten, "lease")


def settle(verdict: Verdict) -> Callable[[State, str], Ran]:
    """End attempt 7 of ``w``; whoever does not hold it changes nothing."""

    def run(state: State, _who: str) -> Ran:
        if not state.held:
            return Ran(_committed_before(state, verdict), state)
        settled = _ended(state, verdict)
        return _locking(str(settled.status), settled, "lease", "task")

    return run


def reap(state: State, _who: str) -> Ran:
    """Take back a lease that has run out."""
    if state.lease is None or not state.lease.expired:
        return Ran("nothing", state)
    reaped = _ended(state, "lost")
    answer = "dead" if reaped.status == "FAILED" else "retried"
    return _locking(answer, reaped, "lease", "task")


def cancel(state: State, _who: str) -> Ran:
    """End what waits, ask the holder of what runs."""
    if state.entry:
        cancelled = replace(state, status="CANCELLED", entry=False, behind=_freed(state))
        return _locking("cancelled", cancelled, "entry", "task")
    if state.lease is not None:
        asked = replace(state, lease=replace(state.lease, asked=True))
        return _locking("requested", asked, "lease")
    return Ran(f"too late: {state.status}" if state.status else "unknown", state)


def redrive(state: State, _who: str) -> Ran:
    """Make a dead letter PENDING again, with every try given back and no attempt repeated."""
    if not state.letter:
        return Ran("nothing", state)
    again = replace(
        state, status="PENDING", refunded=state.attempt, entry=True, letter=False, old=False
    )
    return _locking("redriven", again, "letter", "task")


def effect(state: State, _who: str) -> Ran:
    """Write once, if the key is new, and complete in the same commit; or leave no trace."""
    if not state.held:
        return Ran("lost", state)
    seen = state.key is not None
    written = state if seen else replace(state, key="new", written=state.written + 1)
    done = _ended(written, "completed")
    held = frozenset({"lease", "task"} if seen else {"key", "lease", "task"})
    return Ran("seen" if seen else "COMPLETED", done, frozenset({"key", "lease"}), held)


def prune(state: State, _who: str) -> Ran:
    """Delete what ended well and long ago, and a key that no live task recorded long ago."""
    tasks = state.old and state.status in {"COMPLETED", "CANCELLED"}
    keys = state.key == "old"
    if not tasks and not keys:
        return Ran("nothing", state)
    left = State(None, attempt=0, refunded=0, written=state.written) if tasks else state
    return _locking(
        f"{tasks:d} task, {keys:d} key", replace(left, key=None),
        *(["task"] if tasks else []), *(["key"] if keys else []),
    )  # fmt: skip


def begun(*locked: str) -> Callable[[State], Ran]:
    """Return what an effect did that has not yet settled; ``locked``: from its start."""

    def begin(state: State) -> Ran:
        if not state.held or state.key is not None:
            return effect(state, "")
        return Ran("written", state, NONE, frozenset({"key", *locked}))

    return begin


def _locking(answer: str, state: State, *kinds: str) -> Ran:
    return Ran(answer, state, frozenset(kinds), frozenset(kinds))


def _freed(state: State) -> str | None:
    return state.behind and "head"


def _ended(state: State, verdict: Verdict) -> State:
    asked = state.lease is not None and state.lease.asked
    status = next_status(
        verdict, used=state.used, max_attempts=MAX_ATTEMPTS, cancel_requested=asked
    )
    return replace(
        state,
        status=str(status),
        refunded=state.refunded + (verdict == "release"),
        entry=status not in FINAL,
        lease=None,
        letter=status == "FAILED",
        failure=verdict if verdict in {"retry", "lost"} else state.failure,
        behind=_freed(state) if status in FINAL else state.behind,
    )


def _committed_before(state: State, verdict: Verdict) -> str:
    """Whoever repeats a settlement is told what was committed; it must be its own."""
    if state.status in FINAL and state.attempt == ATTEMPT:
        mine = verdict != "completed" or state.status == "COMPLETED"
        return str(state.status) if mine else "lost"
    return "RETRYING" if state.failure == "retry" and verdict != "completed" else "lost"


RULES: Final[dict[str, Rule]] = {
    "claim": Rule(claim, skipped="nothing"),
    "poll": Rule(claim, skipped="nothing"),
    "heartbeat": Rule(heartbeat, skipped="busy"),
    "settle": Rule(settle("completed")),
    "fail": Rule(settle("retry")),
    "reap": Rule(reap, skipped="nothing"),
    "cancel": Rule(cancel),
    "release": Rule(settle("release")),
    "redrive": Rule(redrive),
    "effect": Rule(effect),
    "prune": Rule(prune, skipped="nothing"),
    "effect begun": Rule(effect, begin=begun()),
    "effect locked": Rule(effect, begin=begun("lease")),
}
"""Claim has two doors, by ids and by queue (``poll``); settle has two halves, completed and failed.

The last two are effects that have written and not yet settled: under READ COMMITTED, and under
REPEATABLE READ, which locks the lease at the start. Only the first of two stops there.
"""
