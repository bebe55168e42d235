"""Proves what became of the orders: the journal against the database and the receipts."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Engine, Uuid, bindparam, select, text
from sqlalchemy.orm import Session

from demo.handlers import receipt_path
from demo.shop import Posting, accounts_differ, posted_twice
from demo.tasks import is_poison

STATUSES = text("SELECT id, type, status FROM taskbell.task WHERE id = ANY (:ids)").bindparams(
    bindparam("ids", type_=ARRAY(Uuid))
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The sums, and a sentence for everything that is not as it must be."""

    accepted: int
    completed: int
    dead: int
    lost: int
    duplicated: int
    findings: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Whether every accepted task ended as it had to, once."""
        whole = self.accepted == self.completed + self.dead
        return whole and not self.lost and not self.duplicated and not self.findings

    @property
    def line(self) -> str:
        """The last line of the demo."""
        return (
            f"accepted={self.accepted} completed={self.completed} dead={self.dead} "
            f"lost={self.lost} duplicated={self.duplicated}"
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "accepted": self.accepted,
            "completed": self.completed,
            "dead": self.dead,
            "lost": self.lost,
            "duplicated": self.duplicated,
            "findings": list(self.findings),
        }


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the producer's journal."""

    fate: str
    order: int
    task_ids: tuple[UUID, ...]


def read_journal(journal: Path) -> list[Entry]:
    """Read what the producer says it did."""
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    return [
        Entry(line["fate"], line["order"], tuple(map(UUID, line["task_ids"]))) for line in lines
    ]


def prove(engine: Engine, journal: Path, receipts: Path, wanted: int) -> Outcome:
    """Compare the journal with what is in the database and on the disk."""
    entries = read_journal(journal)
    accepted = [entry for entry in entries if entry.fate == "accepted"]
    ghosts = [entry for entry in entries if entry.fate == "rolled_back"]
    accepted_ids = [task_id for entry in accepted for task_id in entry.task_ids]
    with Session(engine) as session:
        status = _statuses(session, accepted_ids)
        seen = _statuses(session, [task_id for entry in ghosts for task_id in entry.task_ids])
        posted = set(session.scalars(select(Posting.order_number)))
        duplicated, unbalanced = posted_twice(session), accounts_differ(session)
    ended = Counter(state for _, state in status.values())
    completed, dead = ended["COMPLETED"], ended["FAILED"]
    without_effect = _without_effect(accepted, status, posted, receipts)
    findings = [
        *_unless(
            len(accepted_ids) == wanted, f"{wanted} tasks wanted, {len(accepted_ids)} accepted"
        ),
        *_unless(not seen, f"{len(seen)} tasks of orders that rolled back exist"),
        *_unless(not unbalanced, f"{unbalanced} accounts differ from their ledger"),
        *_unless(dead == _poison(accepted), f"{_poison(accepted)} poison tasks, {dead} dead"),
        *_unless(not without_effect, f"{without_effect} completed tasks left no effect"),
    ]
    lost = len(accepted_ids) - completed - dead + without_effect
    return Outcome(len(accepted_ids), completed, dead, lost, duplicated, tuple(findings))


def _statuses(session: Session, task_ids: Sequence[UUID]) -> dict[UUID, tuple[str, str]]:
    rows = session.execute(STATUSES, {"ids": list(task_ids)})
    return {row.id: (row.type, row.status) for row in rows}


def _without_effect(
    accepted: Sequence[Entry],
    status: dict[UUID, tuple[str, str]],
    posted: set[int],
    receipts: Path,
) -> int:
    missing = 0
    for entry in accepted:
        for task_id in entry.task_ids:
            match status.get(task_id):
                case ("send_receipt", "COMPLETED"):
                    missing += not receipt_path(receipts, entry.order).exists()
                case ("update_ledger", "COMPLETED"):
                    missing += entry.order not in posted
                case _:
                    continue
    return missing


def _poison(accepted: Sequence[Entry]) -> int:
    return sum(is_poison(entry.order) and len(entry.task_ids) > 1 for entry in accepted)


def _unless(fine: bool, finding: str) -> tuple[str, ...]:  # noqa: FBT001 - reads as it is
    return () if fine else (finding,)
