"""What can be checked of a handler is checked where it is registered."""

from functools import partial

import pytest

from taskbell.consumer import Consumer, Context, Fixed, InvalidHandler
from taskbell.producer import TypedTask


class Send(TypedTask, type="send", queue="mail"):
    """A typed task with a queue of its own."""

    to: str


async def handle(_context: Context, _payload: object) -> None:
    return


def in_a_thread(_context: Context, _payload: object) -> None:
    return


def yields(_context: Context, _payload: object) -> object:
    yield 1


async def yields_later(_context: Context, _payload: object) -> object:
    yield 1


def of_one(_context: Context) -> None:
    return


class Callable:
    """An object that is a handler."""

    async def __call__(self, _context: Context, _payload: object) -> None:
        return


@pytest.mark.parametrize(
    ("task", "queue", "problem"),
    [
        ("", None, "must not be empty"),
        ("a\x00", None, "NUL"),
        ("\ud800", None, "surrogate"),
        ("x" * 201, None, "201 bytes"),
        ("t", "amq.x", "amq."),
        ("t", "a\nb", "control character"),
    ],
)
def test_a_name_nobody_could_use_is_refused(task: str, queue: str | None, problem: str) -> None:
    with pytest.raises(InvalidHandler, match=problem):
        Consumer().handler(task, queue=queue)(handle)


@pytest.mark.parametrize("lease", [0, 0.5, -1, float("nan"), float("inf"), 1e300])
def test_a_lease_outside_its_bounds_is_refused(lease: float) -> None:
    with pytest.raises(InvalidHandler, match="a lease has"):
        Consumer().handler("t", lease=lease)(handle)


@pytest.mark.parametrize("delay", [-1, float("nan"), 1e300])
def test_a_retry_delay_outside_its_bounds_is_refused(delay: float) -> None:
    with pytest.raises(InvalidHandler, match="a retry delay has"):
        Consumer().handler("t", retry=Fixed(delay=delay))(handle)


def test_a_function_that_is_no_handler_is_refused() -> None:
    with pytest.raises(InvalidHandler, match="it yields"):
        Consumer().handler("t")(yields)
    with pytest.raises(InvalidHandler, match="it yields"):
        Consumer().handler("t")(yields_later)
    with pytest.raises(InvalidHandler, match="two arguments"):
        Consumer().handler("t")(of_one)


def test_a_type_has_one_handler() -> None:
    app = Consumer()
    app.handler("t")(handle)

    with pytest.raises(InvalidHandler, match="has a handler already"):
        app.handler("t")(in_a_thread)


def test_what_is_async_runs_on_the_loop_and_the_rest_in_threads() -> None:
    app = Consumer()
    app.handler("function")(handle)
    app.handler("partial")(partial(handle))
    app.handler("object")(Callable())
    app.handler("thread")(in_a_thread)

    on_loop = {name for name, each in app.registrations.items() if each.runs_on_loop}

    assert on_loop == {"function", "partial", "object"}


def test_queues_are_those_of_the_handlers() -> None:
    app = Consumer()
    app.handler(Send)(handle)
    app.handler("other")(handle)
    app.handler("third", queue="reports")(handle)

    assert app.queues == ("default", "mail", "reports")


@pytest.mark.parametrize("task", [TypedTask, handle, 17])
def test_what_names_no_type_is_refused(task: object) -> None:
    with pytest.raises(InvalidHandler, match="a type name or a typed task"):
        Consumer().handler(task)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
