"""A command that cannot reach its database ends in one line, without a password."""

import pytest

from support.commands import refusal

COMMANDS = (
    ("dead-letters", "list"), ("queues", "list"), ("audit",),
    ("tasks", "cancel", "00000000-0000-0000-0000-000000000001"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("url", "code", "sentence"),
    [
        ("", 2, "name the database by --database-url or TASKBELL_DATABASE_URL"),
        ("geheim", 2, "not a URL of Postgres"),
        ("mysql://u:geheim@h/x", 2, "not a URL of Postgres"),
        ("postgresql://u:ge@heim@h/x", 2, "@ must be written %40"),
        ("postgresql://u:geheim@h:port/x", 2, "its port is no number"),
        ("postgresql://u:geheim@127.0.0.1:1/x", 1, "the database 127.0.0.1:1/x answered: "),
        (
            "postgresql://u:geheim@127.0.0.1/x?no_such_option=geheim",
            2,
            "parameters that libpq knows",
        ),
        ("postgresql://u:ge%20heim@/x?host=/nowhere", 1, "answered: "),
    ],
)
def test_a_database_that_cannot_be_asked_is_one_line(
    command: tuple[str, ...], url: str, code: int, sentence: str
) -> None:
    line = refusal(*command, "--database-url", url, code=code)

    assert sentence in line
    assert "heim" not in line
