"""What answers look like: documented by these models, and written by ``rendering``."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from taskbell.shared.lifecycle import TaskStatus


class Answer(BaseModel):
    """An answer; it holds no more than this."""

    model_config = ConfigDict(extra="forbid")


class Submitted(Answer):
    """The task a request stands for."""

    task_id: UUID
    status: TaskStatus


class SubmittedOne(Submitted):
    """One task of a batch."""

    created: Annotated[bool, Field(description="Whether this request created it.")]


class SubmittedMany(Answer):
    """The tasks a batch stands for, in its order."""

    tasks: list[SubmittedOne]


class ListedTask(Answer):
    """A task in a list."""

    task_id: UUID
    type: str
    queue: str
    owner_id: str
    status: TaskStatus
    priority: int
    attempts: Annotated[int, Field(description="How often a worker claimed it.")]
    max_attempts: int
    partition_key: str | None
    correlation_id: str | None
    created_at: datetime
    scheduled_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class ListedTasks(Answer):
    """A page of a list, newest first."""

    tasks: list[ListedTask]
    next: Annotated[
        str | None,
        Field(
            description="The cursor of the next page. There may be one although this page is "
            "short, or empty: a page looks at no more than 1 000 tasks."
        ),
    ]


class ShownTask(ListedTask):
    """A task, with what became of it."""

    cancel_requested: bool
    due_at: Annotated[datetime | None, Field(description="While it waits.")]
    position: Annotated[
        int | None,
        Field(
            description="While it is due and waits: where in its queue, from 1, by priority and "
            "age; beyond 100 an estimate."
        ),
    ]
    estimated_start_at: Annotated[
        datetime | None,
        Field(description="An estimate from the queue's measured depth and drain rate."),
    ]
    progress: Annotated[Any, Field(description="What its handler last said, while it runs.")]
    result: Annotated[Any, Field(description="What its handler returned, if it is kept here.")]
    result_location: Annotated[
        str | None,
        Field(description="The path that hands it out, if it is not here."),
    ]
    error: Annotated[str | None, Field(description="The error of the latest failed attempt.")]
