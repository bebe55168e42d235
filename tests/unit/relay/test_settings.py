"""What operators set, and what they are told when it is wrong."""

import pytest
from pydantic import ValidationError

from taskbell.relay.settings import RelaySettings

_REQUIRED = {"database_url": "postgresql://host/db"}


def _settings(**values: object) -> RelaySettings:
    return RelaySettings.model_validate({**_REQUIRED, **values})


def test_the_defaults_are_those_of_the_readme() -> None:
    settings = _settings()

    assert (settings.relay_window, settings.relay_batch) == (2000, 1000)
    assert settings.relay_publish_deadline == 5.0
    assert settings.relay_in_flight == 250
    assert settings.relay_declare == "auto"
    assert settings.broker_url is None
    assert settings.management_url is None


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKBELL_RELAY_WINDOW", "500")
    monkeypatch.setenv("TASKBELL_RELAY_DECLARE", "never")

    settings = _settings()

    assert settings.relay_window == 500
    assert settings.relay_declare == "never"


@pytest.mark.parametrize(
    "wrong",
    [
        {"amqp_url": "http://host"},
        {"amqp_url": "host"},
        {"relay_window": 0},
        {"relay_batch": 0},
        {"relay_publish_deadline": 0},
        {"relay_declare": "perhaps"},
    ],
)
def test_what_cannot_work_is_refused_at_the_start(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        _settings(**wrong)


def test_passwords_are_not_shown() -> None:
    settings = _settings(amqp_url="amqp://u:hush@host/v", management_url="http://u:hush@host:15672")

    assert "hush" not in repr(settings)
    assert settings.broker_url == "amqp://u:hush@host/v"
