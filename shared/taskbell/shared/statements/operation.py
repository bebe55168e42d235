"""What operators did: each statement that acts for one writes ``audit_log`` itself."""


def log(action: str, subjects: str) -> str:
    """Return the CTE ``logged``: one row for each subject, by ``:actor``.

    ``subjects`` selects subject (text) and detail (jsonb).
    """
    return f"""logged AS (
    INSERT INTO taskbell.audit_log (actor, action, subject, detail)
    SELECT CAST(:actor AS text), '{action}', s.subject, s.detail FROM ({subjects}) s
)"""
