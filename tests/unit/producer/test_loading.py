"""SQLAlchemy is loaded for those alone who bring it."""

import subprocess
import sys


def test_a_producer_without_sqlalchemy_sessions_does_not_load_it() -> None:
    loading = (
        "import sys, taskbell.producer as p; p.Producer(); p.AsyncProducer();"
        " print('sqlalchemy' in sys.modules)"
    )

    said = subprocess.run(
        [sys.executable, "-c", loading], capture_output=True, text=True, check=True
    )

    assert said.stdout.strip() == "False"
