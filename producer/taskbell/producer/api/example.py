"""An example of a JSON schema, made of the examples of its parts."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

REFERENCE: Final = "#/components/schemas/"
ID: Final = "01980b1c-8d4e-7cc3-98c4-dc0c0c07398f"
AT: Final = "2026-05-04T09:30:00.123456Z"
_BY_FORMAT: Final = {
    "uuid": ID,
    "date-time": "2030-01-31T12:00:00Z",
}
_BY_TYPE: Final[dict[str, Any]] = {
    "string": "text",
    "integer": 1,
    "number": 0.5,
    "boolean": True,
    "null": None,
    "object": {},
}


def example_of(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Any:
    """Return a value that the schema accepts; ``schemas``: those it may refer to, by name.

    Of an object what is required, and what has an example of its own.
    """
    if "properties" in schema:
        # A model may have inherited its example from one with fewer fields.
        own: Sequence[dict[str, Any]] = schema.get("examples", ())
        return _object(schema, schemas) | (own[0] if own else {})
    for told in ("examples", "enum"):
        if schema.get(told):
            return schema[told][0]
    if "const" in schema:
        return schema["const"]
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].removeprefix(REFERENCE)], schemas)
    for choice in schema.get("anyOf", schema.get("oneOf", ())):
        return example_of(choice, schemas)
    if schema.get("type") == "array":
        return [example_of(schema.get("items", {}), schemas)]
    return _scalar(schema)


def _object(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> dict[str, Any]:
    required = schema.get("required", ())
    return {
        name: example_of(part, schemas)
        for name, part in schema["properties"].items()
        if name in required or "examples" in part
    }


def _scalar(schema: Mapping[str, Any]) -> Any:
    if schema.get("format") in _BY_FORMAT:
        return _BY_FORMAT[schema["format"]]
    return schema.get("minimum", _BY_TYPE.get(schema.get("type", "null")))
