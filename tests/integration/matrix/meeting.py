"""What must come of two operations at once: what comes of them one after the other.

Whoever waits comes after the one it waits for, whoever passes by a locked row has not been there,
and whoever meets nothing is not disturbed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from integration.matrix.rules import RULES, Ran, Rule
from integration.matrix.states import STARTS, State

SECONDS: Final = [name for name, rule in RULES.items() if rule.begin is None]
PAIRS: Final = [(first, second) for first in RULES for second in SECONDS]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of two at once."""

    how: str
    """Whether the second ``waits`` for the first, or ``goes on``, also past a locked row."""
    first: str
    """What the first answered; ``rolled back`` if it was."""
    second: str
    state: State
    broken: tuple[str, ...] = ()
    """The invariants that do not hold: none, whatever meets."""


def outcome(first: str, second: str, start: State, *, commits: bool) -> Outcome:
    """Decide what must come of ``first``, which is done and not yet committed, and ``second``."""
    one, two = RULES[first], RULES[second]
    open_, alone = opened(one, start), two.run(start, "b")
    whole = one.run(start, "a")
    if open_.holds & alone.wants:
        came_first = whole.state if commits else start
        if two.skipped is not None:
            return Outcome("goes on", _told(whole.answer, commits=commits), two.skipped, came_first)
        after = two.run(came_first, "b")
        return Outcome("waits", _told(whole.answer, commits=commits), after.answer, after.state)
    if not commits:
        return Outcome("goes on", "rolled back", alone.answer, alone.state)
    if one.begin and open_.state != whole.state:
        ended = one.run(alone.state, "a")
        return Outcome("goes on", ended.answer, alone.answer, ended.state)
    return Outcome("goes on", whole.answer, alone.answer, _undisturbed(one, two, whole, alone))


def _undisturbed(one: Rule, two: Rule, whole: Ran, alone: Ran) -> State:
    """Return the state after the order in which both answer what each answered to the start."""
    after = two.run(whole.state, "b")
    if after.answer == alone.answer:
        return after.state
    ended = one.run(alone.state, "a")
    assert ended.answer == whole.answer
    return ended.state


def opened(rule: Rule, start: State) -> Ran:
    return rule.begin(start) if rule.begin else rule.run(start, "a")


def _told(answer: str, *, commits: bool) -> str:
    return answer if commits else "rolled back"


def meetings(first: str, second: str) -> Iterator[tuple[str, State, bool]]:
    """Yield every state in which they may meet, and whether the first commits.

    It rolls back as well where both have something to do.
    """
    for name, (start, _) in STARTS.items():
        yield name, start, True
        if opened(RULES[first], start).holds and RULES[second].run(start, "b").wants:
            yield name, start, False
