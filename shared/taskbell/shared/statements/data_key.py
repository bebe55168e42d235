"""The data keys of single owners, as whoever seals and opens needs them."""

from taskbell.shared.statement import Statement

OF_OWNERS = Statement("""
SELECT k.owner_id, k.key_id, k.wrapped FROM taskbell.data_key k
WHERE k.owner_id = ANY (CAST(:owner_ids AS text[])) AND k.erased_at IS NULL
""")
"""The keys in use; an owner without one is sealed for by the ring."""

BY_IDS = Statement("""
SELECT k.key_id, k.owner_id, k.wrapped FROM taskbell.data_key k
WHERE k.key_id = ANY (CAST(:key_ids AS text[]))
""")
"""Keys by their names; ``wrapped`` is null for one that was erased."""
