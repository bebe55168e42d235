"""The HTTP task API: submit, look, cancel, redrive, for services in any language.

It speaks to Postgres alone; the broker is never contacted from here.
"""
