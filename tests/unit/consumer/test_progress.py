"""What handlers may say about how far they are."""

import pytest

from taskbell.consumer.progress import storable_progress
from taskbell.shared.errors import InvalidTask


@pytest.mark.parametrize("value", [None, 0.5, "half", ["a"], {"done": 3, "of": 7}, "x" * 1022])
def test_small_json_is_kept(value: object) -> None:
    assert storable_progress(value)


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ("x" * 1023, "progress"),
        ("ü" * 512, "progress"),
        ({"rate": float("nan")}, "progress.rate"),
        ({"at": [object()]}, "progress.at[0]"),
        ("\x00", "progress"),
        (2**63, "progress"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_named(value: object, where: str) -> None:
    with pytest.raises(InvalidTask) as refused:
        storable_progress(value)

    assert refused.value.field == where
