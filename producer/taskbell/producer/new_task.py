"""The validated request for one task."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Self, TypedDict, Unpack
from uuid import UUID

from taskbell.producer import rules
from taskbell.producer.payload import encode
from taskbell.producer.stored import StoredPayload
from taskbell.producer.typed_task import TypedTask, payload_of
from taskbell.shared import limits
from taskbell.shared.errors import InvalidTask


class Options(TypedDict, total=False):
    """What can be said about a task besides its type and payload; see ``NewTask``."""

    queue: str
    priority: int
    max_attempts: int
    owner_id: str | None
    partition_key: str | None
    correlation_id: str | None
    idempotency_key: str | None
    delay: float | timedelta | None
    scheduled_at: datetime | None
    task_id: UUID | None


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task that may be enqueued; whatever cannot be raises ``InvalidTask`` here.

    ``payload``: plain JSON values (dict, list, tuple, str, int, float, bool, None), read once, now;
    or what a producer's ``put`` made of them, which brings the task's id and its owner.
    ``queue``: the lane it waits in. ``priority``: 0…9, 9 is claimed first. ``max_attempts``: tries
    before it fails. ``owner_id``: whose task it is; None means the producer's. ``partition_key``:
    tasks of a queue that share it run one at a time, in the order in which they were enqueued.
    ``correlation_id``: the caller's own name for what this belongs to. ``idempotency_key``: the
    same owner and key give the same task. ``delay``: seconds or a timedelta from now;
    ``scheduled_at``: not before this instant, with a time zone; not both. ``task_id``: a UUIDv7
    minted by the caller; None mints one.
    """

    type: str
    payload: object = field(default=None, repr=False, compare=False)
    _: KW_ONLY
    queue: str = limits.DEFAULT_QUEUE
    priority: int = limits.DEFAULT_PRIORITY
    max_attempts: int = limits.DEFAULT_MAX_ATTEMPTS
    owner_id: str | None = None
    partition_key: str | None = None
    correlation_id: str | None = None
    idempotency_key: str | None = None
    delay: float | timedelta | None = None
    scheduled_at: datetime | None = None
    task_id: UUID | None = None
    encoded: str = field(init=False, repr=False)
    """The payload as canonical JSON: what is written, whatever becomes of ``payload``."""

    def __post_init__(self) -> None:
        # What a driver or a hash would read differently is replaced by its plain form.
        for name, value in self._plain().items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls,
        task: "str | TypedTask | NewTask",
        payload: object = None,
        **options: Unpack[Options],
    ) -> "NewTask":
        """Make a request of a type's name and a payload, a typed task, or another request.

        Options given here override what the typed task's class or the other request says. Raises
        ``InvalidTask``.
        """
        if isinstance(task, str):
            return cls(task, payload, **options)
        if not isinstance(task, TypedTask):
            task = _known(task)
        if payload is not None:
            raise InvalidTask("payload", f"a {type(task).__name__} brings its own")
        if isinstance(task, TypedTask):
            return cls._of_typed(task, options)
        return replace(task, **options) if options else task

    @classmethod
    def _of_typed(cls, task: TypedTask, options: Options) -> Self:
        if type(task) is TypedTask:
            raise InvalidTask("task", "TypedTask itself names no type; pass one of a subclass")
        said: Options = {
            "queue": task.__task_queue__,
            "priority": task.__task_priority__,
            "max_attempts": task.__task_max_attempts__,
        }
        said.update(options)
        return cls(task.__task_type__, payload_of(task), **said)

    def _plain(self) -> dict[str, object]:
        if self.delay is not None and self.scheduled_at is not None:
            raise InvalidTask("delay", "cannot be combined with scheduled_at")
        plain: dict[str, object] = {
            "type": rules.require_type("type", self.type),
            "queue": rules.require_queue("queue", self.queue),
            "priority": rules.require_whole("priority", self.priority, limits.PRIORITIES),
            "max_attempts": rules.require_whole(
                "max_attempts", self.max_attempts, limits.MAX_ATTEMPTS
            ),
        }
        stored = self.payload
        if isinstance(stored, StoredPayload):
            plain.update(self._stored(stored))
        else:
            plain["encoded"] = encode(stored, limits.PAYLOAD_BYTES)
        for name, rule in _OPTIONAL.items():
            value: object = getattr(self, name)
            if value is not None:
                plain[name] = rule(name, value)
        return plain

    def _stored(self, stored: StoredPayload) -> dict[str, object]:
        for name, mine, its in (
            ("task_id", self.task_id, stored.task_id),
            ("owner_id", self.owner_id, stored.owner_id),
        ):
            if mine is not None and mine != its:
                raise InvalidTask(name, "is not the one for which the payload was stored")
        return {"encoded": stored.encoded, "task_id": stored.task_id, "owner_id": stored.owner_id}


_OPTIONAL: dict[str, Callable[[str, object], object]] = {
    "owner_id": rules.require_owner,
    "partition_key": partial(rules.require_text, limit=limits.PARTITION_KEY_BYTES),
    "correlation_id": partial(rules.require_name, limit=limits.CORRELATION_BYTES),
    "idempotency_key": partial(rules.require_text, limit=limits.IDEMPOTENCY_KEY_BYTES),
    "delay": rules.require_delay,
    "scheduled_at": rules.require_instant,
    "task_id": rules.require_task_id,
}


def _known(task: object) -> NewTask:
    if isinstance(task, NewTask):
        return task
    raise InvalidTask(
        "task",
        "must be the name of a type, an instance of a TypedTask or a NewTask, "
        f"not {type(task).__name__}",
    )
