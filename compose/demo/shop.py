"""The order service's own tables and what happens when somebody orders."""

from decimal import Decimal

from sqlalchemy import Numeric, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from demo.tasks import SendReceipt, UpdateLedger
from taskbell.producer import Enqueued, Producer

ACCOUNTS = 10
SCHEMA = "shop"


class Row(DeclarativeBase):
    """The shop's tables."""


class Order(Row):
    """Somebody bought something."""

    __tablename__ = "order"
    __table_args__ = {"schema": SCHEMA}  # noqa: RUF012 - SQLAlchemy's form

    number: Mapped[int] = mapped_column(primary_key=True)
    account: Mapped[int]
    amount: Mapped[Decimal] = mapped_column(Numeric(12, 2))


class Account(Row):
    """What a customer spent in all."""

    __tablename__ = "account"
    __table_args__ = {"schema": SCHEMA}  # noqa: RUF012 - SQLAlchemy's form

    number: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[Decimal] = mapped_column(Numeric(12, 2), default=Decimal())


class Posting(Row):
    """One line in the ledger. Deliberately without a unique order: a duplicate would be seen."""

    __tablename__ = "posting"
    __table_args__ = {"schema": SCHEMA}  # noqa: RUF012 - SQLAlchemy's form

    line: Mapped[int] = mapped_column(primary_key=True)
    order_number: Mapped[int]
    amount: Mapped[Decimal] = mapped_column(Numeric(12, 2))


def account_of(number: int) -> int:
    """Which customer places this order."""
    return number % ACCOUNTS


def amount_of(number: int) -> Decimal:
    """What this order costs."""
    return Decimal(100 + number * 37 % 9900) / 100


def place_order(
    session: Session, producer: Producer, number: int, *, receipt: bool = True
) -> list[Enqueued]:
    """Write the order and hand over its background work; all of it or nothing commits.

    Placing the same order again, as a client does that saw no answer, changes nothing and returns
    the same tasks.
    """
    amount = amount_of(number)
    order = insert(Order).values(number=number, account=account_of(number), amount=amount)
    session.execute(order.on_conflict_do_nothing())
    handed: list[Enqueued] = []
    if receipt:
        send = SendReceipt(order_number=number, amount=amount)
        handed.append(producer.enqueue(session, send, idempotency_key=f"receipt-{number}"))
    post = UpdateLedger(order_number=number, account=account_of(number), amount=amount)
    handed.append(producer.enqueue(session, post, idempotency_key=f"ledger-{number}"))
    return handed


def posted_twice(session: Session) -> int:
    """Count the ledger lines too many."""
    lines = select(func.count(), func.count(Posting.order_number.distinct())).select_from(Posting)
    every, different = session.execute(lines).one()
    return every - different


def accounts_differ(session: Session) -> int:
    """Count the accounts whose balance is not the sum of their orders' postings."""
    owed = (
        select(Order.account, func.sum(Posting.amount).label("owed"))
        .join(Posting, Posting.order_number == Order.number)
        .group_by(Order.account)
        .subquery()
    )
    differing = (
        select(func.count())
        .select_from(Account)
        .outerjoin(owed, owed.c.account == Account.number)
        .where(Account.balance != func.coalesce(owed.c.owed, 0))
    )
    return session.execute(differing).scalar_one()
