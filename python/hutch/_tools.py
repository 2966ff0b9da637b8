"""The table of tools, and a method of Box for each entry.

The methods are made from the table of the library that was loaded, so they are always those that it has: the input schema's
members are the parameters, its descriptions the documentation. The required members come first and may be given by position;
where none is required, the first one may.
"""
from __future__ import annotations

import inspect
import json
import keyword
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from . import _library as lib
from .box import Box, ToolResult

__all__ = ["Tool", "add_methods", "tools"]

_TYPES: Dict[str, Any] = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


@dataclass(frozen=True)
class Tool:
    """One entry of the table."""

    name: str
    title: str
    description: str
    input_schema: Dict[str, Any]
    output_schema: Optional[Dict[str, Any]]


_table: Optional[Tuple[Tool, ...]] = None


def tools() -> Tuple[Tool, ...]:
    """The tools that every box has."""
    global _table
    if _table is None:
        listed = json.loads(lib.call_text(lib.library().hutch_tools))
        _table = tuple(Tool(one["name"], one.get("title") or one["name"], one.get("description") or "",
                            one.get("input_schema") or {}, one.get("output_schema")) for one in listed)
    return _table


def add_methods(to: type) -> Set[str]:
    """Gives the class a method per tool. A tool whose name the class uses itself, or that is no name in Python, is reached
    by tool() only. Returns the names that were added."""
    added = set()
    for tool in tools():
        taken = any(tool.name in one.__dict__ for one in to.__mro__)
        if taken or not tool.name.isidentifier() or keyword.iskeyword(tool.name) or tool.name.startswith("_"):
            continue
        setattr(to, tool.name, _method(tool, to))
        added.add(tool.name)
    return added


def _method(tool: Tool, owner: type) -> Callable[..., ToolResult]:
    signature = _signature(tool)

    def method(self: Box, *args: Any, **input: Any) -> ToolResult:
        try:
            given = signature.bind(self, *args, **input).arguments
        except TypeError as why:
            raise TypeError(f"{tool.name}() {why}") from None
        del given["self"]
        return self.tool(tool.name, **{name: value for name, value in given.items() if value is not None})

    method.__name__ = tool.name
    method.__qualname__ = f"{owner.__qualname__}.{tool.name}"
    method.__module__ = owner.__module__
    method.__doc__ = _documentation(tool)
    method.__signature__ = signature  # type: ignore[attr-defined]
    return method


def _signature(tool: Tool) -> inspect.Signature:
    members = tool.input_schema.get("properties") or {}
    required = [name for name in tool.input_schema.get("required") or [] if name in members]
    parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    for name in required:
        parameters.append(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=_type(members[name])))
    for name in members:
        if name not in required and name.isidentifier():
            kind = inspect.Parameter.KEYWORD_ONLY if len(parameters) > 1 else inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(inspect.Parameter(name, kind, default=None, annotation=Optional[_type(members[name])]))
    return inspect.Signature(parameters, return_annotation=ToolResult)


def _type(schema: Dict[str, Any]) -> Any:
    kind = schema.get("type")
    return _TYPES.get(kind, Any) if isinstance(kind, str) else Any


def _documentation(tool: Tool) -> str:
    lines: List[str] = [tool.description or tool.title]
    members = tool.input_schema.get("properties") or {}
    if members:
        lines.append("")
    for name, schema in members.items():
        lines.append(f"{name}: {schema.get('description', '')}".rstrip(": "))
    return "\n".join(lines)
