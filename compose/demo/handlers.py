"""The shop's handlers: ``taskbell consumer demo.handlers:app``."""

import asyncio
import os
from html import escape
from pathlib import Path

from sqlalchemy import update

from demo.shop import Account, Posting
from demo.tasks import SendReceipt, UpdateLedger, fails_at_first, is_poison
from taskbell.consumer import Consumer, Context, Fixed

RECEIPTS = "DEMO_RECEIPTS"
"""The variable that names the directory of the receipts."""

LEASE = 3.0
WORK_SECONDS = 0.02
RETRY = Fixed(0.5)

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
    """Post the amount in the commit that completes the task; an order is posted once."""
    if fails_at_first(task.order_number) and context.attempt == 1:
        raise ConnectionError("the ledger is closed for lunch")
    async with context.effect(key=f"order-{task.order_number}") as session:
        session.add(Posting(order_number=task.order_number, amount=task.amount))
        charge = update(Account).where(Account.number == task.account)
        await session.execute(charge.values(balance=Account.balance + task.amount))
        await asyncio.sleep(WORK_SECONDS)  # the auditor is thorough


def receipt_path(directory: Path, order_number: int) -> Path:
    """Name the file of an order's receipt."""
    return directory / f"receipt-{order_number}.html"
