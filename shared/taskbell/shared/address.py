"""The addresses of servers, judged before anything is started: waiting mends no wrong URL.

No refusal repeats any part of a URL, since parts of a malformed one may be of its password.
"""

from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

__all__ = ["conninfo", "reason", "require_url", "where"]

_SQLALCHEMY: Final = "postgresql+psycopg"
_POSTGRES: Final = ("postgresql", "postgres", _SQLALCHEMY)
_UNREADABLE: Final = "not a URL of Postgres: postgresql://user:password@host/database"
_ENCODE: Final = "in user and password @ must be written %40, / %2F, : %3A, ? %3F, # %23 and % %25"
_PORTS: Final = range(1, 65536)
_WHOLE: Final = (
    "connect_timeout",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "tcp_user_timeout",
)
# What libpq itself judges only when it connects, as if the server were away.
_CHOICES: Final = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "gssencmode": ("disable", "prefer", "require"),
    "channel_binding": ("disable", "prefer", "require"),
    "target_session_attrs": (
        *("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    ),
}


def conninfo(url: str) -> str:
    """Return libpq's form of a URL of Postgres, which may name SQLAlchemy's driver.

    Raises ``ValueError`` for whatever libpq could never connect by.
    """
    scheme, separator, rest = _as_libpq(url).partition("://")
    if not separator or scheme not in _POSTGRES or not rest.isprintable():
        raise ValueError(_UNREADABLE)
    # libpq ends the user's part at the first @, unless a / comes before.
    login = rest.partition("/")[0].partition("@")[0] + "@"
    if "@" in rest.removeprefix(login).partition("?")[0]:
        raise ValueError(f"{_UNREADABLE}; {_ENCODE}")
    given = _parameters(f"postgresql://{rest}")
    if not all(_is_port(port) for port in given.get("port", "").split(",")):
        raise ValueError(f"its port is no number from 1 to 65535; {_ENCODE}")
    for name in _WHOLE:
        if not given.get(name, "0").removeprefix("-").isdecimal():
            raise ValueError(f"its {name} is no whole number")
    for name, choices in _CHOICES.items():
        if given.get(name, choices[0]) not in choices:
            raise ValueError(f"its {name} is none of {', '.join(choices)}")
    return f"postgresql://{rest}"


def _as_libpq(url: str) -> str:
    # SQLAlchemy writes a blank in a parameter as +, which to libpq is a plus.
    if not url.startswith(f"{_SQLALCHEMY}://"):
        return url
    address, asked, parameters = url.partition("?")
    return address + asked + parameters.replace("+", "%20")


def _parameters(url: str) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except ProgrammingError:
        raise ValueError(f"{_UNREADABLE}, with parameters that libpq knows; {_ENCODE}") from None


def _is_port(port: str) -> bool:
    return not port or (port.isascii() and port.isdecimal() and int(port) in _PORTS)


def require_url(url: str, schemes: Collection[str], example: str) -> SplitResult:
    """Return the parts of a URL that leads to a host by one of these schemes.

    ``example`` shows how one is written. Raises ``ValueError``.
    """
    refusal = ValueError(f"not a URL like {example}; {_ENCODE}")
    try:
        parts = urlsplit(url)
        leads = parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # its text would repeat what stands in the place of the port
        raise refusal from None
    if not leads or not url.isprintable() or "@" in parts.path + parts.query + parts.fragment:
        raise refusal
    return parts


def where(url: str) -> str:
    """Name a database for people: host, port and name, never a password."""
    given = _parameters(conninfo(url))
    host, port = given.get("host", "local socket"), given.get("port", "default port")
    return f"{host}:{port}/{given.get('dbname', '')}"


def reason(error: BaseException, url: str) -> str:
    """Return the first line of what the database at this URL answered, without the password."""
    said = str(error).strip().partition("\n")[0]
    written = urlsplit(url).password or ""
    for secret in {written, _parameters(conninfo(url)).get("password", "")} - {""}:
        said = said.replace(secret, "***")
    return said
