"""What every role of taskbell shares: words, rules, statements and maintenance.

Nothing here imports a role or a broker client.
"""
