"""Prints what the proofs in `tests/proofs` found: one line each, with its figure and its verdict.

A proof is a test whose name is the sentence it proves. It says its figure by the fixture `proof`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

_PROOFS: Final = Path(__file__).resolve().parents[1] / "proofs"
_FIGURE: Final = "figure"
_ROUND: Final = "_proof_round"
_LINES: Final = pytest.StashKey[list[tuple[str, str]]]()
_ORDER: Final = {"passed": "proved", "failed": "FAILED", "skipped": "skipped"}

Proof = Callable[[str], None]
"""Says the figure of the running proof; said again, it is added."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--proof-rounds", type=int, default=1, metavar="N", help="prove everything N times"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_LINES] = []
    config.pluginmanager.register(_Listener(config.stash[_LINES]), "taskbell-proof-listener")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    rounds = int(metafunc.config.getoption("--proof-rounds") or 1)
    if rounds > 1 and metafunc.definition.path.is_relative_to(_PROOFS):
        metafunc.fixturenames.append(_ROUND)
        metafunc.parametrize(_ROUND, range(1, rounds + 1), ids=lambda n: f"round {n}")


@pytest.fixture
def _proof_round(request: pytest.FixtureRequest) -> int:
    """Which of `--proof-rounds` this is."""
    return int(request.param)


@pytest.fixture
def proof(request: pytest.FixtureRequest) -> Proof:
    """Say the figure that goes with the sentence, as a person would read it."""
    properties = request.node.user_properties

    def say(figure: str) -> None:
        properties.append((_FIGURE, figure))

    return say


class _Listener:
    """Hears, in the process that prints, how every proof ended."""

    def __init__(self, lines: list[tuple[str, str]]) -> None:
        self._lines = lines

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ended = report.when == "call" or (report.when == "setup" and not report.passed)
        figures = [str(value) for name, value in report.user_properties if name == _FIGURE]
        if ended and (figures or "/proofs/" in report.nodeid):
            figure = "; ".join(figures) or "no figure"
            self._lines.append((_ORDER[report.outcome], f"{_sentence(report.nodeid)}: {figure}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = terminalreporter.config.stash[_LINES]
    if not lines or hasattr(terminalreporter.config, "workerinput"):
        return
    terminalreporter.section("proofs")
    for verdict, line in sorted(lines, key=lambda each: each[1]):
        markup = {"green": verdict == "proved", "red": verdict == "FAILED"}
        terminalreporter.write(f"{verdict:8}", bold=True, **markup)
        terminalreporter.write_line(line)


def _sentence(nodeid: str) -> str:
    name, _, variant = nodeid.rpartition("::")[2].partition("[")
    words = name.removeprefix("test_").replace("_", " ")
    return f"{words} ({variant.removesuffix(']')})" if variant else words
