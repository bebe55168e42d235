"""From a URL to a store; nobody is asked yet."""

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from taskbell.shared.storage.troubles import reason

if TYPE_CHECKING:  # an extra, loaded by those alone who set up a storage
    from obstore.store import ObjectStore

_TOOLS: Final = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}


def open_store(url: str, deadline: float) -> tuple["ObjectStore", Path | None]:
    """Open what the URL names; with the directory, if it is one. Raises ``ValueError``.

    Credentials, endpoint and region come from the environment, under the names that the stores' own
    tools use.
    """
    parts = urlsplit(url)
    if (
        parts.scheme not in {"file", *_TOOLS}
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
    ):
        raise ValueError("not file:///directory, s3://bucket/…, gs://bucket/… or az://container/…")
    try:
        from obstore.exceptions import BaseError  # noqa: PLC0415 - see above
        from obstore.store import LocalStore, from_url  # noqa: PLC0415 - see above
    except ImportError:
        raise ValueError("needs the extra taskbell-shared[storage]") from None
    if parts.scheme == "file":
        root = _directory(parts.netloc, parts.path)
        return LocalStore(root, automatic_cleanup=True), root
    # One try and the time for tries may both last their longest and still keep the deadline.
    half = timedelta(seconds=deadline / 2)
    try:
        store = from_url(
            url,
            client_options={
                "timeout": half,
                "connect_timeout": min(half, timedelta(seconds=5)),
                # These options replace what the store read from the environment by itself.
                "allow_http": os.environ.get(f"{_TOOLS[parts.scheme]}_ALLOW_HTTP") == "true",
            },
            retry_config={"max_retries": 3, "retry_timeout": half},
        )
    except BaseError as error:
        raise ValueError(f"cannot be opened: {reason(error)}") from None
    return store, None


def _directory(host: str, path: str) -> Path:
    root = Path(unquote(path))
    if host not in ("", "localhost") or not root.is_absolute() or not root.is_dir():
        raise ValueError("file:// names no directory that is there")
    return root
