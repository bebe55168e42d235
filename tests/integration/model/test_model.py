"""Whatever is done to tasks in whatever order, the database does what the model does."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from integration.model.machine import Machine
from integration.model.pipeline import Pipeline


def test_any_order_of_statements_does_what_the_model_does(
    database_url: str, model_settings: settings
) -> None:
    with Pipeline(database_url) as connected:

        class Connected(Machine):
            pipeline = connected

        run_state_machine_as_test(Connected, settings=model_settings)
