"""How long the model of the tasks' life is compared with the database.

With all tests it is the same small number of examples each time, so that a run says something
about the code alone. A soak, asked for by `--model-examples`, draws others every time.
"""

from typing import Final

import pytest
from hypothesis import HealthCheck, Phase, settings

_EXAMPLES: Final = 100
_STEPS: Final = 30
_SECONDS: Final = 600
"""Bounds a hanging run; finding the smallest example of a fault may take five minutes."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--model-examples", type=int, metavar="N", help="soak the model: N examples, drawn anew"
    )
    parser.addoption(
        "--model-steps", type=int, metavar="N", help=f"steps of each example, {_STEPS} if not given"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seconds = 0 if config.getoption("--model-examples") else _SECONDS
    for each in items:
        if "model_settings" in getattr(each, "fixturenames", ()):
            each.add_marker(pytest.mark.timeout(seconds))


@pytest.fixture
def model_settings(pytestconfig: pytest.Config) -> settings:
    """How many examples of how many steps, and drawn how."""
    examples: int | None = pytestconfig.getoption("--model-examples")
    steps: int = pytestconfig.getoption("--model-steps") or _STEPS
    return settings(
        max_examples=examples or _EXAMPLES,
        stateful_step_count=steps,
        derandomize=examples is None,
        database=None,
        deadline=None,  # how fast the machine is must decide nothing
        phases=(Phase.generate, Phase.shrink),
        # An example is thirty round trips to a database, on a busy machine: it is slow by nature.
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
