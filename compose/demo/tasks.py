"""The two tasks of an order: what the shop and its handlers agree on."""

from decimal import Decimal

from taskbell.producer import TypedTask


class SendReceipt(TypedTask, type="send_receipt", queue="mail", max_attempts=3, priority=7):
    """Write the customer's receipt."""

    order_number: int
    amount: Decimal


class UpdateLedger(TypedTask, type="update_ledger", queue="ledger"):
    """Post the order's amount to the customer's account."""

    order_number: int
    account: int
    amount: Decimal


def is_poison(order_number: int) -> bool:
    """Whether the receipt of this order can never be written."""
    return order_number % 50 == 7  # noqa: PLR2004 - one in fifty


def fails_at_first(order_number: int) -> bool:
    """Whether this order's work meets a fault that is gone at the second try."""
    return order_number % 11 == 3  # noqa: PLR2004 - one in eleven
