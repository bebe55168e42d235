"""What taskbell costs: measured beside the floor of its own SQL and beside its peers."""
