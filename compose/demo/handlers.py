"""The shop's handlers: ``taskbell consumer demo.handlers:app``."""

import asyncio
import os
from functools import cache
from html import escape
from pathlib import Path

from sqlalchemy import update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from demo.shop import Account, Posted, Posting
from demo.tasks import SendReceipt, UpdateLedger, fails_at_first, is_poison
from taskbell.consumer import Consumer, Context, RetryPolicy

RECEIPTS = "DEMO_RECEIPTS"
"""The variable that names the directory of the receipts."""

LEASE = 3.0
WORK_SECONDS = 0.02
RETRY = RetryPolicy(delay=0.5)

PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Receipt {number}</title>
<h1>Receipt for order {number}</h1>
<p>Amount: <strong>{amount} €</strong></p>
<p>Thank you.</p></html>
"""

app = Consumer()


@app.handler(SendReceipt, lease=LEASE, retry=RETRY)
async def send_receipt(context: Context, task: SendReceipt) -> None:
    """Write the receipt as a page; a second run replaces the same file."""
    await asyncio.sleep(WORK_SECONDS)  # the printer is slow
    if is_poison(task.order_number):
        raise ValueError("the customer's name cannot be printed")
    if fails_at_first(task.order_number) and context.attempt == 1:
        raise ConnectionError("the printer is out of paper")
    page = PAGE.format(number=task.order_number, amount=escape(str(task.amount)))
    path = receipt_path(Path(os.environ[RECEIPTS]), task.order_number)
    draft = path.with_suffix(f".{context.attempt}.draft")
    draft.write_text(page, encoding="utf-8")
    draft.replace(path)


@app.handler(UpdateLedger, lease=LEASE, retry=RETRY)
async def update_ledger(context: Context, task: UpdateLedger) -> None:
    """Post the amount; the dedup key commits with it, so that a second run posts nothing."""
    if fails_at_first(task.order_number) and context.attempt == 1:
        raise ConnectionError("the ledger is closed for lunch")
    async with sessions().begin() as session:
        key = insert(Posted).values(order_number=task.order_number).on_conflict_do_nothing()
        if await session.scalar(key.returning(Posted.order_number)) is None:
            return
        session.add(Posting(order_number=task.order_number, amount=task.amount))
        charge = update(Account).where(Account.number == task.account)
        await session.execute(charge.values(balance=Account.balance + task.amount))
        await asyncio.sleep(WORK_SECONDS)  # the auditor is thorough


def receipt_path(directory: Path, order_number: int) -> Path:
    """Name the file of an order's receipt."""
    return directory / f"receipt-{order_number}.html"


@cache
def sessions() -> async_sessionmaker[AsyncSession]:
    """Give this process's sessions, made when the first task needs one."""
    engine = create_async_engine(
        os.environ["TASKBELL_DATABASE_URL"], pool_size=10, pool_pre_ping=True
    )
    return async_sessionmaker(engine)
