"""``taskbell relay`` as a process: what it needs, what it says, how it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import pytest

from integration.relay.ear import listening
from support.factories import make_tasks
from support.proxy import Proxy
from support.rabbitmq import Vhost
from support.waiting import PATIENCE

_COMMAND = [sys.executable, "-m", "taskbell.relay"]


def _environment(**settings: str) -> dict[str, str]:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("TASKBELL_")}
    return ours | {f"TASKBELL_{name.upper()}": value for name, value in settings.items()}


@contextmanager
def _running(environment: Mapping[str, str]) -> Generator[subprocess.Popen[str]]:
    with subprocess.Popen(
        _COMMAND, env=environment, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _wait_for_line(process: subprocess.Popen[str], words: str) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    raise AssertionError(f"it ended without saying {words!r}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_announces_until_it_is_asked_to_end(
    database_url: str, vhost: Vhost, number: signal.Signals
) -> None:
    environment = _environment(database_url=database_url, amqp_url=vhost.url)
    async with listening(vhost.url) as ear:
        with _running(environment) as process:
            await ear.hears(make_tasks(database_url, 3))
            process.send_signal(number)
            said = process.communicate(timeout=PATIENCE)[1]

    assert process.returncode == 0
    assert "role_stopped" in said
    assert "Traceback" not in said


def test_a_second_signal_ends_it_at_once(database_url: str, vhost: Vhost) -> None:
    environment = _environment(database_url=database_url, amqp_url=vhost.url)
    with _running(environment) as process:
        _wait_for_line(process, "broker_found")
        process.send_signal(signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        status = process.wait(timeout=PATIENCE)

    # Whether the first one had time to end it in good order is a race.
    assert status in {0, -signal.SIGTERM, -signal.SIGINT}


async def test_it_ends_in_time_while_the_broker_is_silent(database_url: str, vhost: Vhost) -> None:
    async with Proxy.before(vhost.url) as proxy, listening(vhost.url) as ear:
        environment = _environment(database_url=database_url, amqp_url=proxy.through(vhost.url))
        with _running(environment) as process:
            await ear.hears(make_tasks(database_url))
            proxy.silence()
            make_tasks(database_url)
            await proxy.held_back.wait()
            process.send_signal(signal.SIGTERM)
            status = process.wait(timeout=PATIENCE)

    assert status == 0


def _said(environment: Mapping[str, str], *arguments: str) -> tuple[int, str]:
    ended = subprocess.run(
        [*_COMMAND, *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return ended.returncode, ended.stderr


def test_without_a_broker_it_says_that_no_relay_is_needed(database_url: str) -> None:
    code, said = _said(_environment(database_url=database_url))

    assert code == 2
    assert said.splitlines() == [
        "TASKBELL_AMQP_URL is not set; without RabbitMQ no relay is needed: consumers poll"
    ]


def test_without_a_database_it_names_the_variable() -> None:
    code, said = _said(_environment(amqp_url="amqp://host"))

    assert code == 2
    assert said.splitlines() == ["TASKBELL_DATABASE_URL: Field required"]


def test_a_wrong_setting_is_named_without_its_value() -> None:
    code, said = _said(
        _environment(database_url="postgresql://host/db", amqp_url="http://u:hush@host")
    )

    assert code == 2
    assert len(said.splitlines()) == 1
    assert said.startswith("TASKBELL_AMQP_URL: ")
    assert "hush" not in said


@pytest.mark.parametrize("url", ["hunter2", "postgresql://app:hunt@er2@host/db"])
def test_a_database_url_that_can_never_work_ends_it_in_one_line(url: str) -> None:
    code, said = _said(_environment(database_url=url, amqp_url="amqp://host"))

    assert code == 2
    assert said.startswith("TASKBELL_DATABASE_URL: ")
    assert len(said.splitlines()) == 1
    assert "er2" not in said


def test_a_database_that_is_not_migrated_is_one_line_and_code_1(
    empty_database_url: str, vhost: Vhost
) -> None:
    code, said = _said(_environment(database_url=empty_database_url, amqp_url=vhost.url))

    assert code == 1
    assert len(said.splitlines()) == 1
    assert "taskbell migrate" in said


def test_a_database_that_is_away_is_waited_for(vhost: Vhost) -> None:
    environment = _environment(
        database_url="postgresql://user:hush@127.0.0.1:1/db", amqp_url=vhost.url
    )
    with _running(environment) as process:
        line = _wait_for_line(process, "database_lost")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)

    assert "hush" not in line
    assert (process.returncode, said) == (0, "")  # told to stop before it started anything


def test_a_broker_that_is_away_is_waited_for(database_url: str) -> None:
    environment = _environment(database_url=database_url, amqp_url="amqp://user:hush@127.0.0.1:1/v")
    with _running(environment) as process:
        line = _wait_for_line(process, "broker_lost")
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=PATIENCE)

    assert "hush" not in line
    assert status == 0
