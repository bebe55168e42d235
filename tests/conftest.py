"""Names the fixture plugins; fixtures themselves live there."""

pytest_plugins = [
    "support.postgres",
    "support.rabbitmq",
    "support.fleet",
    "support.proof",
    "support.soak",
    "support.api",
    "support.commands",
    "support.issuer",
    "support.stores",
]
