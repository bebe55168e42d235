"""The watchdog looks no earlier than the first lease may expire, and no later."""

import time
from types import SimpleNamespace
from typing import Any

from taskbell.consumer.watchdog import Watchdog


def _attempt(seconds: float) -> Any:
    return SimpleNamespace(lease=SimpleNamespace(expiring_at=time.monotonic() + seconds))


def test_only_what_expires_is_told_and_beats_put_it_off() -> None:
    watchdog, late, kept, calm = Watchdog(), _attempt(-1), _attempt(-1), _attempt(3600)
    running = [late, kept, calm]
    watchdog.note([each.lease for each in running])
    kept.lease.expiring_at = time.monotonic() + 3600  # a beat came

    assert watchdog.expiring(running) == [late]
    assert watchdog.expiring(running) == [late]  # as long as it runs
    assert watchdog.expiring([kept, calm]) == []


def test_a_shorter_lease_that_comes_later_is_seen_in_time() -> None:
    watchdog, calm, late = Watchdog(), _attempt(3600), _attempt(-1)
    watchdog.note([calm.lease])
    assert watchdog.expiring([calm]) == []

    watchdog.note([late.lease])

    assert watchdog.expiring([calm, late]) == [late]
