"""What an operator of the interface set wrongly is said in one line, in his words."""

import pydantic
import pytest

from taskbell.producer.api.settings import ApiSettings
from taskbell.shared.settings import sentence

URL = "postgresql://user:secret@host/database"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"api_tls_cert": "/chain.pem"},
            "TASKBELL_API_TLS_CERT and TASKBELL_API_TLS_KEY go together",
        ),
        (
            {"database_url": "mysql://host/database"},
            "TASKBELL_DATABASE_URL: not a URL of Postgres: postgresql://user:password@host/database",
        ),
    ],
)
def test_a_wrong_setting_is_named_and_nothing_else(given: dict[str, str], said: str) -> None:
    with pytest.raises(pydantic.ValidationError) as caught:
        ApiSettings.read(**({"database_url": URL} | given))

    assert sentence(caught.value) == said
