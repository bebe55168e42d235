"""A role that ends, or freezes, at a point: a composition root for tests alone.

``python -m support.doomed consumer|relay POINT [--times N] [--by SIGKILL|SIGSTOP] [--slots N]``:
the role is the real one, with its settings from the environment; only its observer is ours.
"""

import argparse
import asyncio
import os
import signal
import threading

from taskbell.shared.events import Event, Observer
from taskbell.shared.logs import log_to_stderr
from taskbell.shared.points import AFTER_CLAIM, BEFORE_PUBLISH, PointReached


class Doom:
    """An observer that signals its own process when a point is reached for the n-th time.

    It counts from when its role has work: what dies idle proves nothing.
    """

    def __init__(self, observe: Observer, point: str, times: int, by: signal.Signals) -> None:
        self._observe = observe
        self._point = point
        self._left = times
        self._by = by
        self._working = False
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        if isinstance(event, PointReached):
            with self._lock:
                self._note(event)
        self._observe(event)

    def _note(self, event: PointReached) -> None:
        self._working = self._working or event in {AFTER_CLAIM, BEFORE_PUBLISH}
        if self._working and event.point == self._point:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._by)


def main() -> None:
    """Run the role until it is doomed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["consumer", "relay"])
    parser.add_argument("point")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--by", choices=["SIGKILL", "SIGSTOP"], default="SIGKILL")
    parser.add_argument("--slots", type=int)
    given = parser.parse_args()
    doom = Doom(log_to_stderr("info", "json"), given.point, given.times, signal.Signals[given.by])
    if given.role == "consumer":
        _consume(doom, given.slots)
    else:
        _relay(doom)


# Each role loads its own half: starting costs more than anything else that the proofs do.
def _consume(doom: Doom, slots: int | None) -> None:
    from support.effects import application  # noqa: PLC0415 - see above
    from taskbell.consumer.command import run  # noqa: PLC0415
    from taskbell.consumer.settings import ConsumerSettings  # noqa: PLC0415

    asyncio.run(run(application(doom), ConsumerSettings.read(slots=slots), doom))


def _relay(doom: Doom) -> None:
    from taskbell.relay.command import serve  # noqa: PLC0415 - see above
    from taskbell.relay.settings import RelaySettings  # noqa: PLC0415

    settings = RelaySettings.read()
    assert settings.broker_url is not None
    asyncio.run(serve(settings, settings.broker_url, observe=doom, storage=settings.storage))


if __name__ == "__main__":
    main()
