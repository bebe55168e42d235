"""Shows the run: a live table on a terminal, a line a second elsewhere, JSON on request."""

import json
import sys
import time
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.outcome import Outcome
from demo.state import State

LINE_EVERY = 1.0


class View(Protocol):
    """Where the demo shows itself."""

    def say(self, sentence: str) -> None:
        """Tell what happens."""
        ...

    def show(self, state: State) -> None:
        """Show a moment; called a few times a second."""
        ...

    def close(self) -> None:
        """Nothing more is shown but the outcome."""
        ...

    def conclude(self, outcome: Outcome) -> None:
        """Print the outcome as the last line."""
        ...


def make_view(*, as_json: bool) -> View:
    """Choose the view that fits where standard output goes."""
    if as_json:
        return JsonView()
    return LiveView() if sys.stdout.isatty() else LineView()


class LineView:
    """One line a second."""

    def __init__(self) -> None:
        self._shown_at = 0.0

    def say(self, sentence: str) -> None:
        """Print it."""
        print(sentence, flush=True)

    def show(self, state: State) -> None:
        """Print a line if the last is a second old."""
        if time.monotonic() - self._shown_at >= LINE_EVERY:
            self._shown_at = time.monotonic()
            print(
                f"  depth {state.depth:>5}  running {state.running:>3}  done {state.done:>5}  "
                f"retrying {state.retrying:>4}  dead {state.dead:>3}  "
                f"announce→start p50 {_milliseconds(state.latency_p50)} "
                f"p95 {_milliseconds(state.latency_p95)}",
                flush=True,
            )

    def close(self) -> None:
        """Nothing is open."""

    def conclude(self, outcome: Outcome) -> None:
        """Print what was found, then the line that counts."""
        for finding in outcome.findings:
            print(f"! {finding}")
        print(outcome.line, flush=True)


class LiveView(LineView):
    """A table that stays in place."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console()
        self._live = Live(console=self._console, refresh_per_second=8)
        self._live.start()

    def say(self, sentence: str) -> None:
        """Print it above the table."""
        self._console.print(sentence, highlight=False)

    def show(self, state: State) -> None:
        """Redraw the table."""
        table = Table(title="taskbell demo: an order service")
        for name in ("depth", "running", "done", "retrying", "dead"):
            table.add_column(name, justify="right")
        table.add_column("announce→start p50", justify="right")
        table.add_column("p95", justify="right")
        table.add_row(
            str(state.depth), str(state.running), str(state.done), str(state.retrying),
            str(state.dead), _milliseconds(state.latency_p50), _milliseconds(state.latency_p95),
        )  # fmt: skip
        self._live.update(table)

    def close(self) -> None:
        """Leave the last table where it is."""
        self._live.stop()


class JsonView:
    """One object a line; the last one is the outcome."""

    def __init__(self) -> None:
        self._shown_at = 0.0

    def say(self, sentence: str) -> None:
        """Write it as an event."""
        print(json.dumps({"event": sentence}), flush=True)

    def show(self, state: State) -> None:
        """Write a state if the last is a second old."""
        if time.monotonic() - self._shown_at >= LINE_EVERY:
            self._shown_at = time.monotonic()
            print(json.dumps({"state": state.as_dict()}), flush=True)

    def close(self) -> None:
        """Nothing is open."""

    def conclude(self, outcome: Outcome) -> None:
        """Write the outcome."""
        print(json.dumps(outcome.as_dict()), flush=True)


def _milliseconds(value: float | None) -> str:
    return "    ?   " if value is None else f"{value:>5.1f} ms"
