"""The command line: its own commands here, the roles' by entry points. Needs the extra `cli`."""
