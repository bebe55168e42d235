"""What the tables must hold if the model is right, in the form in which the pipeline shows them."""

from typing import Any

from integration.model.model import FINAL, Model, Task


def picture(model: Model) -> dict[str, Any]:
    """The rows, with every instant as its distance from now; None where a table is empty."""
    now = model.now
    tasks = {str(task_id): _task(task, now) for task_id, task in model.tasks.items()}
    queues = {
        name: [each.paused, _ahead(each.paused_until, now), each.on_dead]
        for name, each in model.queues.items()
    }
    return {
        "tasks": tasks or None,
        "queues": queues or None,
        "holds": {"/".join(each): str(task_id) for each, task_id in model.holds.items()} or None,
        "keys": sorted(str(task_id) for task_id, _ in model.keys.values()) or None,
        "effects": {key: [str(e[0]), e[1] - now] for key, e in model.effects.items()} or None,
        "ledger": sorted(map(str, model.ledger)) or None,
        "rows": sum(
            (task.entry or task.lease or task.letter) is not None for task in model.tasks.values()
        ) + sum(bool(task.failures) for task in model.tasks.values()),
    }  # fmt: skip


def _task(task: Task, now: int) -> dict[str, Any]:
    entry, lease, letter = task.entry, task.lease, task.letter
    return {
        "status": task.status,
        "attempts": [task.attempt_count, task.refunded],
        "finished": _ahead(task.finished, now),
        "error": task.error,
        "entry": entry and [entry.due[0] - now, entry.parked, _ahead(entry.marked, now)],
        "lease": lease
        and [lease.worker, lease.attempt, lease.expires - now, lease.cancel_requested],
        "letter": letter
        and [letter.failed[0] - now, letter.attempt, letter.fingerprint, letter.worker],
        "failures": [[n, *task.failures[n]] for n in sorted(task.failures)] or None,
    }


def _ahead(instant: int | None, now: int) -> int | None:
    return None if instant is None else instant - now


def broken(tasks: dict[str, dict[str, Any]]) -> list[str]:
    """I1 to I3 and I5 as the rows themselves show them: the tasks that break one."""
    return [task_id for task_id, task in tasks.items() if not _is_sound(task)]


def _is_sound(task: dict[str, Any]) -> bool:
    final = task["status"] in FINAL
    places = sum(task[place] is not None for place in ("entry", "lease"))
    return (
        places == (0 if final else 1)
        and (task["lease"] is None or task["lease"][1] == task["attempts"][0])
        and (task["letter"] is not None) == (task["status"] == "FAILED")
        and (task["finished"] is not None) == final
    )
