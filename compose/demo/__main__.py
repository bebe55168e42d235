"""``make demo``: from orders to receipts, with the mishaps of a bad night."""

import argparse
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from uuid import uuid4

from sqlalchemy import Engine, create_engine, insert
from sqlalchemy.schema import CreateSchema

from demo.handlers import RECEIPTS
from demo.night import Shop, live_through
from demo.roles import Roles
from demo.shop import ACCOUNTS, SCHEMA, Account, Row
from demo.view import View, make_view
from services import RabbitMQ, ServiceError, open_postgres, open_rabbitmq
from taskbell.shared.migration import upgrade

NOBODY_COMES = "RabbitMQ was not found, so this runs brokerless: consumers poll Postgres themselves"


def main() -> int:
    """Run the demo; 0 only if the outcome is proven."""
    arguments = _arguments()
    view = make_view(as_json=arguments.json)
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        with ExitStack() as stack:
            stack.callback(view.close)
            shop = _open(stack, view, arguments.tasks)
            outcome = live_through(shop)
            view.close()
            if arguments.keep:
                view.conclude(outcome)
                _stay(shop)
    except ServiceError as error:
        view.say(str(error))
        return 1
    except KeyboardInterrupt:
        view.say("interrupted; everything that was started is stopped")
        return 130
    view.conclude(outcome)
    return 0 if outcome.proven else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("demo", description="An order service, with mishaps.")
    parser.add_argument("--tasks", type=_positive, default=2000, help="how many to accept")
    parser.add_argument("--json", action="store_true", help="print JSON lines, the outcome last")
    parser.add_argument("--keep", action="store_true", help="stay up afterwards, to look around")
    return parser.parse_args()


def _positive(word: str) -> int:
    number = int(word)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _as_interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _open(stack: ExitStack, view: View, wanted: int) -> Shop:
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="taskbell-demo-")))
    postgres = open_postgres(os.environ.get("TASKBELL_TEST_DATABASE_URL"), durable=True)
    stack.enter_context(postgres)
    name = f"taskbell_demo_{uuid4().hex[:8]}"
    url = postgres.create_database(name)
    stack.callback(postgres.drop_database, name)
    view.say(f"PostgreSQL {postgres.version}")
    engine = create_engine(url)
    stack.callback(engine.dispose)
    upgrade(url)
    _open_shop(engine)
    broker = _open_broker(stack, view)
    environment = {
        "TASKBELL_DATABASE_URL": url,
        "TASKBELL_LOG_LEVEL": "debug",
        "TASKBELL_LOG_FORMAT": "json",
        RECEIPTS: str(directory / "receipts"),
    }
    vhost = f"taskbell-demo-{uuid4().hex[:8]}"
    if broker is not None:
        environment["TASKBELL_AMQP_URL"] = broker.create_vhost(vhost)
        stack.callback(broker.drop_vhost, vhost)
    (directory / "receipts").mkdir()
    roles = stack.enter_context(Roles(directory, environment))
    return Shop(engine, directory, roles, broker, vhost, view, wanted)


def _open_broker(stack: ExitStack, view: View) -> RabbitMQ | None:
    try:
        broker = stack.enter_context(open_rabbitmq(os.environ.get("TASKBELL_TEST_AMQP_URL")))
    except ServiceError:
        view.say(NOBODY_COMES)
        return None
    view.say(f"RabbitMQ {broker.version}")
    return broker


def _open_shop(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(CreateSchema(SCHEMA))
        Row.metadata.create_all(connection)
        connection.execute(insert(Account), [{"number": each} for each in range(ACCOUNTS)])


def _stay(shop: Shop) -> None:
    shop.view.say(f"receipts, journal and logs: {shop.directory}")
    shop.view.say(f"database: {shop.engine.url.render_as_string(hide_password=False)}")
    if shop.broker is not None:
        shop.view.say(f"RabbitMQ: {shop.broker.management_url}, vhost {shop.vhost}")
        # A throw-away broker on the loopback interface, gone at Ctrl-C: its login is no secret.
        shop.view.say(f"  user {shop.broker.user}, password {shop.broker.password}")
    shop.view.say("Ctrl-C ends it")
    try:
        Event().wait()
    except KeyboardInterrupt:
        # Once is enough: a second one must not interrupt the cleaning up.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())
