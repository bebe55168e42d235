"""Every proof explains itself, and what `make prove` prints is fit to be read."""

import ast
from pathlib import Path

import pytest

from support.proof import Found, page

PROOFS = sorted((Path(__file__).resolve().parents[1] / "proofs").glob("test_*.py"))


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.name)
def test_every_proof_says_in_a_sentence_what_is_done_to_show_it(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    proofs = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]

    assert [each.name for each in proofs if not ast.get_docstring(each)] == []


def test_a_sentence_is_told_once_with_the_figures_of_its_variants_and_its_worst_verdict() -> None:
    first, second = "x" * 40, "y" * 40

    def variant(name: str, verdict: str) -> Found:
        return Found("f", "nothing is lost", name, verdict, "We kill it.", f"{first} {second}")

    lines = [*page([variant("late", "FAILED"), variant("early", "proved")])]

    assert [line.strip() for line in lines] == [
        "FAILED   nothing is lost", "We kill it.",
        f"- proved, early: {first}", second, f"- late: {first} {second}", "",
    ]  # fmt: skip
    assert max(map(len, lines)) <= 100
