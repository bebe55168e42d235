"""What keeps taskbell whole without an operator: reap, promote, prune, measure, vacuum.

Relays and consumers all run it. Each duty's last run is a row: a whole fleet keeps one pace.
"""
