"""Prints what the proofs in `tests/proofs` found, for somebody who does not know the code.

A proof is a test whose name is the sentence it proves; its docstring says what was done to show it,
and it says its figures by the fixture `proof`. What was tried in several variants is told once.
"""

import inspect
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

_PROOFS: Final = Path(__file__).resolve().parents[1] / "proofs"
_FIGURE: Final = "figure"
_EXPLANATION: Final = "explanation"
_ROUND: Final = "_proof_round"
_WORDS: Final = {"passed": "proved", "failed": "FAILED", "skipped": "skipped"}
_WIDTH: Final = 100
_AMONG_OTHERS: Final = 15.0
_INDENT: Final = " " * 9

Proof = Callable[[str], None]
"""Says the figure of the running proof; said again, it is added."""


@dataclass(frozen=True)
class Found:
    """How one variant of a proof ended."""

    file: str
    sentence: str
    variant: str
    verdict: str
    """proved, FAILED or skipped."""
    explanation: str
    figure: str


_LINES: Final = pytest.StashKey[list[Found]]()
_BEGUN: Final = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--proof-rounds", type=int, default=1, metavar="N", help="prove everything N times"
    )
    parser.addoption(
        "--promptly", type=float, default=_AMONG_OTHERS, metavar="SECONDS",
        help="how soon after its timeout a task must start again; 1 is promised",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LINES] = []
    config.stash[_BEGUN] = time.monotonic()
    config.pluginmanager.register(_Listener(config.stash[_LINES]), "taskbell-proof-listener")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    rounds = int(metafunc.config.getoption("--proof-rounds") or 1)
    if rounds > 1 and metafunc.definition.path.is_relative_to(_PROOFS):
        metafunc.fixturenames.append(_ROUND)
        metafunc.parametrize(_ROUND, range(1, rounds + 1), ids=lambda n: f"round {n}")


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function) and item.path.is_relative_to(_PROOFS):
        item.user_properties.append((_EXPLANATION, inspect.getdoc(item.obj) or ""))


@pytest.fixture
def _proof_round(request: pytest.FixtureRequest) -> int:
    """Which of `--proof-rounds` this is."""
    return int(request.param)


@pytest.fixture
def promptly(pytestconfig: pytest.Config) -> float:
    """Seconds after its timeout within which a task must be available, and start, again.

    The promise of one second is held to by `make prove`, which runs nothing else. Among all the
    other tests a late process says more of the machine.
    """
    return float(pytestconfig.getoption("--promptly") or _AMONG_OTHERS)


@pytest.fixture
def proof(request: pytest.FixtureRequest) -> Proof:
    """Say the figure that goes with the sentence, as a person would read it."""
    properties = request.node.user_properties

    def say(figure: str) -> None:
        properties.append((_FIGURE, figure))

    return say


class _Listener:
    """Hears, in the process that prints, how every proof ended."""

    def __init__(self, found: list[Found]) -> None:
        self._found = found

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ended = report.when == "call" or (report.when == "setup" and not report.passed)
        if ended and "/proofs/" in report.nodeid:
            self._found.append(_found_by(report))


def _found_by(report: pytest.TestReport) -> Found:
    file, _, test = report.nodeid.rpartition("::")
    name, _, variant = test.partition("[")
    said = [(kind, str(value)) for kind, value in report.user_properties]
    return Found(
        file,
        name.removeprefix("test_").replace("_", " "),
        variant.removesuffix("]"),
        _WORDS[report.outcome],
        " ".join(" ".join(text for kind, text in said if kind == _EXPLANATION).split()),
        "; ".join(text for kind, text in said if kind == _FIGURE) or "no figure",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    found = config.stash[_LINES]
    if not found or hasattr(config, "workerinput"):
        return
    terminalreporter.section("proofs")
    for line in page(found):
        word = line[:8].strip()
        markup = {"green": word == "proved", "red": word == "FAILED"}
        if word in _WORDS.values():
            terminalreporter.write(line[:8], bold=True, **markup)
            terminalreporter.write_line(line[8:])
        else:
            terminalreporter.write_line(line)
    proved = sum(each.verdict == "proved" for each in found)
    seconds = time.monotonic() - config.stash[_BEGUN]
    terminalreporter.write_line(f"{proved} of {len(found)} proved in {seconds:.0f} s", bold=True)


def page(found: Iterable[Found]) -> Iterator[str]:
    """Tell each sentence once: its verdict, what was done, and the figures of its variants."""
    ordered = sorted(found, key=lambda each: (each.file, each.sentence, each.variant))
    for (_, sentence), group in groupby(ordered, lambda each: (each.file, each.sentence)):
        variants = list(group)
        verdicts = {each.verdict for each in variants}
        worst = next(word for word in ("FAILED", "skipped", "proved") if word in verdicts)
        yield from _wrapped(sentence, f"{worst:9}", _INDENT)
        yield from _wrapped(variants[0].explanation, _INDENT, _INDENT)
        for each in variants:
            said = f"{each.variant}: {each.figure}" if each.variant else each.figure
            if each.verdict != worst:
                said = f"{each.verdict}, {said}"
            yield from _wrapped(said, f"{_INDENT}- ", f"{_INDENT}  ")
        yield ""


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=first, subsequent_indent=rest)
