"""The report: one Markdown page, its figures first, and what the plots are drawn from."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks import event_loop
from benchmarks.bench import Bench, Finding, Outcome, Table
from benchmarks.peers.catalogue import PEERS
from benchmarks.servers import SETTINGS

_METHOD: Final = (
    "Rates are of real work: from the first handler to the last, medians of runs in turn; every "
    "task ran once and is settled. CPU is that of process groups per task. *foreign CPU* is what "
    "other processes of the machine used meanwhile, in the worst run: above 20 % of a core a "
    "rate says little, CPU and counts per task still do."
)
_VERDICTS: Final = {True: "met", False: "**not met**", None: "not judged"}


def write(bench: Bench, name: str, outcomes: dict[str, Outcome], seconds: float) -> Path:
    """Write ``report.md`` and ``plots.json``; returns the report's path."""
    findings = [each for outcome in outcomes.values() for each in outcome.findings]
    lines = [
        "# taskbell's benchmarks", "", *_machine(bench, name, seconds), "", "## Figures", "",
        *_figures(findings),
    ]  # fmt: skip
    for scenario, outcome in outcomes.items():
        lines += ["", f"## {scenario}"]
        lines += [line for each in outcome.tables for line in _table(each)]
        lines += [line for note in outcome.notes for line in ("", note)]
        lines += [
            line
            for number, curve in enumerate(outcome.curves)
            for line in ("", f"![{curve.title}]({plot_name(scenario, number)})")
        ]
        lines += [
            line
            for each in outcome.tables
            if each.plot is not None
            for line in ("", f"![{each.title}]({bar_name(scenario, outcome.tables.index(each))})")
        ]
    lines += ["", *_peers()]
    path = bench.directory / "report.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (bench.directory / "plots.json").write_text(json.dumps(_plots(outcomes)), encoding="utf-8")
    return path


def plot_name(scenario: str, number: int) -> str:
    """The file of a curve."""
    return f"{scenario}-{number}.png"


def bar_name(scenario: str, number: int) -> str:
    """The file of a table's bars."""
    return f"{scenario}-bars-{number}.png"


def _machine(bench: Bench, name: str, seconds: float) -> list[str]:
    servers = bench.servers
    settings = ", ".join(f"`{setting} = {value}`" for setting, value in SETTINGS.items())
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return [
        f"{when}, size *{name}*, {seconds / 60:.1f} minutes, commit {_commit()}.",
        "",
        (
            f"{_hardware()}, Python {platform.python_version()}, {servers.postgres.origin}, "
            f"{servers.rabbitmq.origin}; everything on this one machine."
        ),
        "",
        (
            f"Postgres: {settings}. RabbitMQ: schedulers do not spin (`+sbwt none`), persistent "
            f"messages, publisher confirms. Relay, consumers and HTTP interface: {_loop(bench)}."
        ),
        "",
        _METHOD,
    ]


def _loop(bench: Bench) -> str:
    return "the standard event loop" if bench.packages is None else f"uvloop {event_loop.VERSION}"


def _figures(findings: Sequence[Finding]) -> Iterable[str]:
    yield "| scenario | goal | measured | | why |"
    yield "|---|---|---|---|---|"
    for each in findings:
        why = each.reason
        yield f"| {each.figure} | {each.goal} | {each.measured} | {_VERDICTS[each.met]} | {why} |"


def _table(table: Table) -> Iterable[str]:
    yield from ("", f"### {table.title}", "", "| " + " | ".join(table.columns) + " |")
    yield "|" + "|".join("---" if at == 0 else "--:" for at in range(len(table.columns))) + "|"
    for row in table.rows:
        yield "| " + " | ".join(row) + " |"


def _peers() -> Iterable[str]:
    yield from (
        "## Peers",
        "",
        "| peer | version | tuned | a task | enqueue |",
        "|---|---|---|---|---|",
    )
    for peer in PEERS:
        packages = ", ".join(peer.packages)
        yield f"| {peer.name} | {packages} | {peer.tuning} | {peer.note} | {peer.enqueue_note} |"


def _plots(outcomes: dict[str, Outcome]) -> list[dict[str, object]]:
    plots: list[dict[str, object]] = []
    for scenario, outcome in outcomes.items():
        for number, curve in enumerate(outcome.curves):
            plots.append({"file": plot_name(scenario, number), "kind": "curve", **asdict(curve)})
        for number, table in enumerate(outcome.tables):
            if table.plot is not None:
                at = table.columns.index(table.plot)
                bars = {row[0]: float(row[at].replace(",", "")) for row in table.rows}
                plots.append(
                    {"file": bar_name(scenario, number), "kind": "bars", "title": table.title,
                     "x": table.plot, "bars": bars}
                )  # fmt: skip
    return plots


def _commit() -> str:
    asked = ["git", "rev-parse", "--short", "HEAD"]
    told = subprocess.run(
        asked, capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    return told.stdout.strip() or "unknown"


def _hardware() -> str:
    return f"{os.cpu_count()} CPUs ({_cpu()}), {_memory():.0f} GB, {platform.platform()}"


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory() -> float:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
