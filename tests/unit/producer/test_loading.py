"""What not everybody needs is loaded for those alone who bring it."""

import subprocess
import sys


def test_a_producer_without_sessions_seals_or_storage_loads_none_of_their_libraries() -> None:
    loading = (
        "import sys, taskbell.producer as p; p.Producer(); p.AsyncProducer(admission=True);"
        " p.NewTask('t'); print({'sqlalchemy', 'cryptography', 'obstore'} & set(sys.modules))"
    )

    said = subprocess.run(
        [sys.executable, "-c", loading], capture_output=True, text=True, check=True
    )

    assert said.stdout.strip() == "set()"
