"""The application: every route behind its scope, every error a problem document."""

from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import version

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route as Routed

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
    app = FastAPI(
        title="taskbell",
        version=version("taskbell-producer"),
        docs_url=None,  # the pages load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,  # it is one of our routes
        redirect_slashes=False,
        # Its spans and logs would tell paths and queries as they were sent.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    routes = [*all_routes(parts), *more]
    routes.append(document.route(routes))
    app.state.routes = routes
    # Routed by the framework, but not read by it: handlers take the raw request, so that each
    # body is validated once and every refusal has our shape.
    plain = frozenset(route.path for route in routes if "{" not in route.path)
    routed = [_routed(parts.gatekeeper, route, plain) for route in routes]
    app.router.routes.extend(routed)
    app.add_exception_handler(HTTPException, _unrouted(routed))
    app.add_middleware(
        Front, observe=parts.observe, traffic=parts.traffic, most=parts.settings.api_in_flight
    )
    return app


def _routed(gatekeeper: Gatekeeper, route: Route, plain: frozenset[str]) -> Routed:
    return Routed(route.path, _guarded(gatekeeper, route, plain), methods=[route.method])


def _guarded(
    gatekeeper: Gatekeeper, route: Route, plain: frozenset[str]
) -> Callable[[Request], Awaitable[Response]]:
    """``plain``: the paths without an id in them."""

    async def endpoint(request: Request) -> Response:
        if route.path not in plain and request.scope["path"] in plain:
            raise HTTPException(405)  # the name of another path is no id: /tasks/batch has no GET
        visit = visit_of(request)
        visit.route = route.path
        principal = _NOBODY
        if route.scope is not None:
            principal = await gatekeeper.admit(request, route.scope)
            visit.principal = principal.name
        response = await route.handler(request, principal)
        if request.method == "HEAD" and isinstance(response, StreamingResponse):
            return Response(None, response.status_code, response.headers)
        return response

    return endpoint


def _unrouted(routed: Sequence[Routed]) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answer what no route took: the path is unknown, or it does not know the method."""

    async def refuse(request: Request, error: Exception) -> Response:
        path: str = request.scope["path"]
        matching = [each for each in routed if each.path_regex.match(path)]
        # A name of ours hides the ids that could stand in its place.
        known = [each for each in matching if each.path == path] or matching
        if not known:
            raise Problem("not-found") from error
        methods = sorted({method for each in known for method in each.methods or ()})
        raise Problem("method-not-allowed", headers={"Allow": ", ".join(methods)}) from error

    return refuse
