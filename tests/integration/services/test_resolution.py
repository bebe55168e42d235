"""Who finds no service learns what was tried and what helps."""

from pathlib import Path

import pytest

from services import ServiceError, open_postgres, open_rabbitmq


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither server binaries nor a container engine nor the embedded wheel."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("services.clusters.DEBIAN", tmp_path)
    monkeypatch.setattr("services.clusters.EMBEDDED", "no_such_wheel")
    monkeypatch.setattr("services.nodes.DEBIAN", tmp_path)


@pytest.mark.usefixtures("bare_machine")
def test_without_any_postgres_the_error_says_what_was_tried_and_what_helps() -> None:
    with pytest.raises(ServiceError) as caught:
        open_postgres(durable=False)

    said = str(caught.value)
    for tried in ("binaries on this machine: not found", "no docker command", "embedded wheel"):
        assert tried in said
    for helps in ("apt-get install postgresql", "--group embedded", "TASKBELL_TEST_DATABASE_URL"):
        assert helps in said


@pytest.mark.usefixtures("bare_machine")
def test_without_any_rabbitmq_the_error_says_what_was_tried_and_what_helps() -> None:
    with pytest.raises(ServiceError) as caught:
        open_rabbitmq()

    said = str(caught.value)
    for tried in ("binaries on this machine: not found", "no docker command"):
        assert tried in said
    for helps in ("apt-get install rabbitmq-server", "Docker", "TASKBELL_TEST_AMQP_URL"):
        assert helps in said


@pytest.mark.usefixtures("bare_machine")
def test_an_address_from_outside_is_taken_at_its_word() -> None:
    with open_postgres("postgresql://somebody:secret@far/away", durable=False) as postgres:
        assert postgres.url == "postgresql+psycopg://somebody:secret@far/away"


def test_a_directory_without_servers_is_an_error_not_a_search(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="no initdb and postgres in"):
        open_postgres(durable=False, binaries=tmp_path)
