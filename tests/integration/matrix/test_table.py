"""The table is whole, and says what the rules say."""

from itertools import product

from integration.matrix.meeting import PAIRS
from integration.matrix.rules import RULES
from integration.matrix.states import STARTS
from integration.matrix.table import PLACE, text

NINE = (
    "claim", "heartbeat", "settle", "reap", "cancel", "release", "redrive", "effect", "prune",
)  # fmt: skip


def test_every_pair_is_there_in_both_orders() -> None:
    assert set(product(NINE, NINE)) <= set(PAIRS)


def test_every_operation_has_something_to_do_somewhere() -> None:
    idle = {
        name
        for name, rule in RULES.items()
        if not any(rule.run(start, "b").wants for start, _ in STARTS.values())
    }

    assert idle == set()


def test_the_table_in_the_repository_is_the_one_the_rules_give() -> None:
    assert PLACE.read_text(encoding="utf-8") == text()
