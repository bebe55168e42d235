"""Where the management API is and whom it is asked as."""

import pytest

from taskbell.relay.policy import Management


@pytest.mark.parametrize(
    "url", ["", "host:15672", "ftp://host", "http://", "http://u:hush/er@host"]
)
def test_a_url_that_is_not_one_of_the_management_api_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not a URL like http"):
        Management(url, "amqp://host")


@pytest.mark.parametrize(
    ("amqp_url", "vhost"),
    [
        ("amqp://host", "/"),
        ("amqp://host/", "/"),
        ("amqp://host/%2F", "/"),
        ("amqp://host/taskbell", "taskbell"),
        ("amqp://host/a%2Fb", "a/b"),
    ],
)
def test_the_vhost_is_that_of_the_amqp_url(amqp_url: str, vhost: str) -> None:
    assert Management("http://host:15672", amqp_url).vhost == vhost


def test_the_address_that_is_shown_has_no_password() -> None:
    management = Management("https://admin:hush@host:15671/rabbit/", "amqp://host")

    assert management.where == "https://host:15671/rabbit"
    assert "hush" not in repr(management)
