"""A lender opens its service once, when asked, and tells every borrower why if it cannot."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from services import ServiceError
from services.lending import Description, Lender, borrow


class Counted:
    """A service that counts how often it is opened and closed."""

    def __init__(self) -> None:
        self.opened = self.closed = 0

    def open(self) -> tuple[Description, Callable[[], None]]:
        self.opened += 1
        return {"opened": str(self.opened)}, self.close

    def close(self) -> None:
        self.closed += 1


def test_all_borrowers_get_one_service() -> None:
    service = Counted()
    with closing(Lender(service.open)) as lender, ThreadPoolExecutor(4) as borrowers:
        borrowed = list(borrowers.map(borrow, [lender.address()] * 4))
        mine = lender.describe()

    assert [mine, *borrowed] == [{"opened": "1"}] * 5
    assert (service.opened, service.closed) == (1, 1)


def test_nothing_is_opened_when_nobody_asks() -> None:
    service = Counted()

    with closing(Lender(service.open)) as lender:
        lender.address()

    assert (service.opened, service.closed) == (0, 0)


def test_a_borrower_learns_why_there_is_none() -> None:
    def fail() -> tuple[Description, Callable[[], None]]:
        raise ServiceError("no such thing: install it")

    with closing(Lender(fail)) as lender:
        for _ in range(2):
            with pytest.raises(ServiceError, match="install it"):
                borrow(lender.address())
        with pytest.raises(ServiceError, match="install it"):
            lender.describe()
