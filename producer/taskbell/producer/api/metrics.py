"""What /metrics tells: counts of requests and answers, and the measured queues.

Written by hand in the Prometheus text format. Its labels are route templates, methods, statuses,
names of problems and queues: nothing that names an owner, a key, a task or a type.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from taskbell.producer.api.front import RequestServed
from taskbell.shared.events import Event

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
MOST_QUEUES: Final = 200
"""That are told one by one."""
_OTHER: Final = "(other)"  # no queue can have this name


class Histogram:
    """Seconds, by upper bounds."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BUCKETS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self._counts[bisect_left(_BUCKETS, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, labels: Mapping[str, str]) -> Iterator[str]:
        """Tell them, each bound with all below it."""
        total = 0
        for bound, count in zip((*map(str, _BUCKETS), "+Inf"), self._counts, strict=True):
            total += count
            yield _line(f"{name}_bucket", {**labels, "le": bound}, total)
        yield _line(f"{name}_sum", labels, self._sum)
        yield _line(f"{name}_count", labels, total)


class Metrics:
    """Counts; an observer of events."""

    def __init__(self) -> None:
        self.streams = 0
        """Event streams that are open."""
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._submitted: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()

    def observe(self, event: Event) -> None:
        """Count what an event reports."""
        if isinstance(event, RequestServed):
            method = event.method if event.method in _METHODS else _OTHER
            route = event.route or "none"
            self._requests[route, method, event.status] += 1
            self._seconds.setdefault(route, Histogram()).add(event.seconds)
            if event.problem:
                self._refused[event.problem] += 1

    def submitted(self, *, created: int, known: int) -> None:
        """Count tasks that were accepted."""
        self._submitted["true"] += created
        self._submitted["false"] += known

    @contextmanager
    def streaming(self) -> Generator[None]:
        """Count a stream while it is open."""
        self.streams += 1
        try:
            yield
        finally:
            self.streams -= 1

    def text(self, in_flight: int, measures: Iterable[Any] | None) -> str:
        """Write the page.

        ``measures``: rows of ``states.MEASURES``; None where the database could not be asked.
        """
        lines = [*self._of_requests(in_flight), *_of_database(measures)]
        return "\n".join(lines) + "\n"

    def _of_requests(self, in_flight: int) -> Iterator[str]:
        yield from _head("taskbell_api_requests_total", "counter", "Requests answered.")
        for (route, method, status), count in sorted(self._requests.items()):
            labels = {"route": route, "method": method, "status": str(status)}
            yield _line("taskbell_api_requests_total", labels, count)
        yield from _head("taskbell_api_request_seconds", "histogram", "How long they took.")
        for route, histogram in sorted(self._seconds.items()):
            yield from histogram.lines("taskbell_api_request_seconds", {"route": route})
        yield from _head("taskbell_api_in_flight", "gauge", "Requests being served.")
        yield _line("taskbell_api_in_flight", {}, in_flight)
        yield from _head("taskbell_api_streams", "gauge", "Event streams that are open.")
        yield _line("taskbell_api_streams", {}, self.streams)
        yield from _head("taskbell_tasks_submitted_total", "counter", "Tasks accepted.")
        for created in ("true", "false"):
            labels = {"created": created}
            yield _line("taskbell_tasks_submitted_total", labels, self._submitted[created])
        yield from _head("taskbell_refused_total", "counter", "Requests that ended in a problem.")
        for reason, count in sorted(self._refused.items()):
            yield _line("taskbell_refused_total", {"reason": reason}, count)


def _of_database(measures: Iterable[Any] | None) -> Iterator[str]:
    yield from _head("taskbell_database_up", "gauge", "Whether the database could be asked.")
    yield _line("taskbell_database_up", {}, 0 if measures is None else 1)
    queues = list(measures or ())
    for name, help_text, column in (
        ("taskbell_queue_depth", "Tasks that are due.", "depth"),
        ("taskbell_queue_oldest_seconds", "Age of the oldest due task.", "oldest_age"),
        ("taskbell_queue_drain_rate", "Tasks settled a second.", "drain_rate"),
        ("taskbell_queue_max_depth", "Depth at which admission refuses.", "max_depth"),
    ):
        yield from _head(name, "gauge", help_text)
        for each in queues:
            value = getattr(each, column)
            if value is not None:
                yield _line(name, {"queue": each.queue or _OTHER}, value)


def _head(name: str, kind: str, help_text: str) -> tuple[str, str]:
    return f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    written = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{written}}} {value}" if written else f"{name} {value}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
