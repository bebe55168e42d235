"""The application: every route behind its scope, every error a problem document."""

from collections.abc import Awaitable, Callable
from importlib.metadata import version

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from taskbell.producer.api.gatekeeper import Gatekeeper
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal
from taskbell.producer.api.route import Route
from taskbell.producer.api.routes import all_routes

_NOBODY = Principal("", "", frozenset())


def build(parts: Parts) -> FastAPI:
    """Put the application together; the routes are found at ``app.state.routes``."""
    app = FastAPI(
        title="taskbell",
        version=version("taskbell-producer"),
        docs_url=None,  # the pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.routes = all_routes(parts)
    for route in app.state.routes:
        endpoint = _guarded(parts.gatekeeper, route)
        app.add_api_route(route.path, endpoint, methods=[route.method])
    return app


def _guarded(gatekeeper: Gatekeeper, route: Route) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        principal = _NOBODY
        if route.scope is not None:
            principal = await gatekeeper.admit(request, route.scope)
        return await route.handler(request, principal)

    return endpoint
