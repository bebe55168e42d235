"""What goes wrong with a store, in our words."""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from taskbell.shared.errors import StorageAway

_ROOT_MISSING: Final = "the root of the storage is not there"


class Asking:
    """Turns the troubles of a call into ``StorageAway``, and bounds it.

    ``FileNotFoundError`` passes: whether a missing object or a missing root is behind it, and which
    of them is trouble, is for the caller to judge.
    """

    is_away: bool
    """Whether the last call that ended was one of trouble."""

    def __init__(self, deadline: float) -> None:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - an extra, see opening

        self.is_away = False
        self._deadline = deadline
        self._troubles = (BaseError, OSError)

    @asynccontextmanager
    async def bounded(self, deed: str) -> AsyncGenerator[None]:
        """For a call that is awaited."""
        with self.told(deed):
            async with asyncio.timeout(self._deadline):
                yield

    @contextmanager
    def told(self, deed: str) -> Generator[None]:
        """For a call that blocks: the store's own deadlines must do."""
        try:
            yield
        except FileNotFoundError:
            self.is_away = False
            raise
        except TimeoutError:
            raise self._away(f"{deed}: no answer within {self._deadline:g} s") from None
        except self._troubles as error:
            raise self._away(f"{deed}: {reason(error)}") from None
        else:
            self.is_away = False

    def root_missing(self) -> StorageAway:
        """Make the error of a root that the caller found missing."""
        return self._away(_ROOT_MISSING)

    def _away(self, why: str) -> StorageAway:
        self.is_away = True
        return StorageAway(why)


def reason(error: Exception) -> str:
    """Say what the store answered, without bodies and queries: they may show signatures."""
    line = re.split(r"[\n<{]", str(error), maxsplit=1)[0].strip()
    return re.sub(r"\?\S+", "", line)[:300] or type(error).__name__
