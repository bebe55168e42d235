"""Text that Postgres can store, whatever a handler or its exception produced."""

_MARK = "…"


def storable(text: str, limit: int) -> str:
    """Return ``text`` without NUL and lone surrogates, of at most ``limit`` bytes of UTF-8.

    What does not fit is cut at the end and marked with an ellipsis. Never raises.
    """
    clean = text.replace("\x00", "\ufffd").encode("utf-8", "replace")
    if len(clean) <= limit:
        return clean.decode("utf-8")
    room = limit - len(_MARK.encode())
    return clean[:room].decode("utf-8", "ignore") + _MARK
