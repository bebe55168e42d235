"""The application: every route behind its scope, every error a problem document."""

from collections.abc import Sequence
from importlib.metadata import version

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as Routed
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Asked

from taskbell.producer.api import document
from taskbell.producer.api.front import Front, visit_of
from taskbell.producer.api.gatekeeper import Gatekeeper
from taskbell.producer.api.parts import Parts
from taskbell.producer.api.principal import Principal
from taskbell.producer.api.problems import Problem
from taskbell.producer.api.route import Route
from taskbell.producer.api.routes import all_routes

_NOBODY = Principal("", "", frozenset())


def build(parts: Parts, more: Sequence[Route] = ()) -> FastAPI:
    """Put the application together, with ``more`` routes; all are at ``app.state.routes``."""
    app = _Application(parts)
    routes = [*all_routes(parts), *more]
    routes.append(document.route(routes))
    app.state.routes = routes
    # Routed by the framework, but not read by it: handlers take the raw request, so that each
    # body is validated once and every refusal has our shape.
    plain = frozenset(route.path for route in routes if "{" not in route.path)
    app.router.routes.extend(
        Routed(route.path, _Guarded(parts.gatekeeper, route, plain), methods=[route.method])
        for route in routes
    )
    return app


class _Application(FastAPI):
    """The framework with one layer around its router instead of its own five.

    Theirs turn errors into answers, which ``Front`` does in our shape, and close what is never
    opened here: uploaded files and dependencies.
    """

    def __init__(self, parts: Parts) -> None:
        super().__init__(
            title="taskbell",
            version=version("taskbell-producer"),
            docs_url=None,  # the pages load scripts from elsewhere
            redoc_url=None,
            openapi_url=None,  # it is one of our routes
            redirect_slashes=False,
            # Its spans and logs would tell paths and queries as they were sent.
            telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
        )
        self._parts = parts

    def build_middleware_stack(self) -> ASGIApp:
        """Put ``Front`` around the routes."""
        parts = self._parts
        return Front(
            self._found, observe=parts.observe, traffic=parts.traffic,
            most=parts.settings.api_in_flight,
        )  # fmt: skip

    async def _found(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Hand over to the route; raises ``Problem`` where there is none."""
        try:
            await self.router(scope, receive, send)
        except HTTPException as error:
            raise self._unrouted(scope["path"]) from error

    def _unrouted(self, path: str) -> Problem:
        """What no route took: the path is unknown, or it does not know the method."""
        routed = [each for each in self.router.routes if isinstance(each, Routed)]
        matching = [each for each in routed if each.path_regex.match(path)]
        # A name of ours hides the ids that could stand in its place.
        known = [each for each in matching if each.path == path] or matching
        if not known:
            return Problem("not-found")
        methods = sorted({method for each in known for method in each.methods or ()})
        return Problem("method-not-allowed", headers={"Allow": ", ".join(methods)})


class _Guarded:
    """A route behind its scope, as an ASGI application.

    ``plain``: the paths without an id in them.
    """

    def __init__(self, gatekeeper: Gatekeeper, route: Route, plain: frozenset[str]) -> None:
        self._gatekeeper = gatekeeper
        self._route = route
        self._hidden = frozenset[str]() if route.path in plain else plain

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Admit the caller and answer."""
        if scope["path"] in self._hidden:
            raise HTTPException(405)  # the name of another path is no id: /tasks/batch has no GET
        route = self._route
        request = Request(scope, receive, send)
        visit = visit_of(request)
        visit.route = route.path
        principal = _NOBODY
        if route.scope is not None:
            principal = await self._gatekeeper.admit(request, route.scope)
            visit.principal = principal.name
        response = await route.handler(request, principal)
        if scope["method"] == "HEAD" and isinstance(response, StreamingResponse):
            response = Response(None, response.status_code, response.headers)
        await response(scope, receive, send)
