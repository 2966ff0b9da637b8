"""The server's own description (/openapi.json), read by tests: its operations, bodies that its schemas allow, and answers
held against them. To be imported behind live_server, which makes the Python package known."""
import http.client
import json
import re
import string
from urllib.parse import quote, urlencode, urlsplit

import jsonschema

from hutch.client import Client, ServerError
from hutch.client._websocket import WebSocket, WebSocketClosed

ACCESS = {"Needs no key.": "public", "Any user's key.": "read", "A key of role user or admin.": "user",
          "A key of role admin.": "admin", "A key of role worker.": "worker"}


class Operation:
    """A row of the table of routes."""

    def __init__(self, document, path, method, row):
        self.document, self.path, self.method = document, path, method.upper()
        self.name, self.tag = row["operationId"], row["tags"][0]
        self.access = ACCESS[row["description"]]
        self.parameters = row.get("parameters", [])
        self.body = row.get("requestBody", {}).get("content", {})
        self.responses = row["responses"]

    def __repr__(self):
        return f"{self.method} {self.path}"

    @property
    def websocket(self):
        return "101" in self.responses

    def path_names(self):
        return [one["name"] for one in self.parameters if one["in"] == "path"]

    def resolve(self, schema):
        while "$ref" in schema:
            part = self.document
            for name in schema["$ref"].lstrip("#/").split("/"):
                part = part[name]
            schema = part
        return schema

    def url(self, values, query=None):
        """The path with its parameters, and the parameters of the query that must be there."""
        path = re.sub(r"\{(\w+)\}", lambda m: quote(str(values[m[1]]), safe="/" if m[1] == "path" else ""), self.path)
        if query is None:
            query = {one["name"]: self.least(one["schema"]) for one in self.parameters
                     if one["in"] == "query" and one["required"]}
        return path + ("?" + urlencode(query) if query else "")

    def schema(self):
        """Of a body of JSON; None: it takes none."""
        return self.body.get("application/json", {}).get("schema")

    # --- values ---

    def least(self, schema):
        """The smallest value that the schema allows."""
        schema = self.resolve(schema)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                chosen = self.least({**{k: v for k, v in schema.items() if k != key}, **self.resolve(schema[key][0])})
                return chosen
        if "enum" in schema:
            return schema["enum"][0]
        if "const" in schema:
            return schema["const"]
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object":
            properties = schema.get("properties", {})
            names = list(schema.get("required", []))
            names += [name for name in properties if name not in names][:max(0, schema.get("minProperties", 0) - len(names))]
            return {name: self.least(properties.get(name, {})) for name in names}
        if kind == "array":
            return [self.least(schema.get("items", {})) for _ in range(schema.get("minItems", 0))]
        if kind in ("integer", "number"):
            return max(schema.get("minimum", 0), schema.get("exclusiveMinimum", -1) + 1)
        return {"boolean": False, "null": None}.get(kind, "x" * max(1, schema.get("minLength", 0)))

    def some(self, schema, rng, depth=0):
        """A random value, mostly one that the schema allows."""
        schema = self.resolve(schema)
        if depth > 6 or rng.random() < 0.04:
            return anything(rng)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.some(rng.choice(schema[key]), rng, depth + 1)
        if "enum" in schema:
            return rng.choice(schema["enum"])
        kind = schema.get("type", "object" if "properties" in schema else rng.choice(["string", "object", "integer"]))
        kind = rng.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            return self._some_object(schema, rng, depth)
        if kind == "array":
            most = min(schema.get("maxItems", 3), 3)
            return [self.some(schema.get("items", {}), rng, depth + 1) for _ in range(rng.randint(min(schema.get("minItems", 0), most), most))]
        if kind in ("integer", "number"):
            least, most = schema.get("minimum", -5), schema.get("maximum", 1 << 40)
            near = [least, most, least - 1, most + 1, 0, 1, 2, 7, -1, (1 << 63) - 1]
            number = rng.choice([*near, rng.randint(least, max(least, min(most, least + 100)))])
            return number + rng.random() if kind == "number" and rng.random() < 0.5 else number
        if kind == "boolean":
            return rng.random() < 0.5
        return None if kind == "null" else text(rng, schema)

    def _some_object(self, schema, rng, depth):
        value, required = {}, schema.get("required", [])
        for name, part in schema.get("properties", {}).items():
            if rng.random() < (0.97 if name in required else 0.5):
                value[name] = self.some(part, rng, depth + 1)
        if not schema.get("properties") or rng.random() < 0.03:
            more = schema.get("additionalProperties")
            for _ in range(rng.randint(0, 2)):
                value[text(rng, {})] = self.some(more, rng, depth + 1) if isinstance(more, dict) else anything(rng)
        return value

    # --- answers ---

    def check(self, status, content_type, body):
        """An answer that is not as it is described is an AssertionError."""
        described = self.responses.get(str(status)) or self.responses.get(f"{status // 100}XX")
        assert described, f"{self}: answers with {status}, which is not described"
        content = self.resolve(described).get("content", {})
        kind = content_type.partition(";")[0].strip()
        if status == 204 or not content:
            assert not body, f"{self}: {status} with a body: {body[:200]}"
            return
        if kind not in content:
            assert "*/*" in content, f"{self}: answers with {content_type!r}, not one of {list(content)}: {body[:200]}"
            return
        if kind.endswith("json"):
            value = json.loads(body)
            schema = {**content[kind].get("schema", {}), "components": self.document["components"]}
            try:
                jsonschema.Draft202012Validator(schema).validate(value)
            except jsonschema.ValidationError as wrong:
                raise AssertionError(f"{self}: {status}: {list(wrong.absolute_path)}: {wrong.message[:300]}") from None


def operations(document):
    return [Operation(document, path, method, row) for path, methods in document["paths"].items()
            for method, row in methods.items()]


class Answer:
    def __init__(self, status, content_type, body, headers=None):
        self.status, self.type, self.body, self.headers = status, content_type, body, headers


class Door:
    """Sends requests as somebody."""

    def __init__(self, url):
        self.url, self.address = url, urlsplit(url)

    def socket(self, operation, key, values, query=None):
        """A WebSocket may be refused after its handshake, by a close code of 4000 + the status."""
        try:
            with WebSocket(Client(self.url, key or "").transport, operation.url(values, query), timeout=120) as socket:
                socket.receive(3)
        except ServerError as refused:
            return Answer(refused.status, "", b"")
        except WebSocketClosed as closed:
            return Answer(closed.code - 4000 if closed.code and closed.code > 4000 else 101, "", b"")
        except TimeoutError:
            pass
        return Answer(101, "", b"")

    def send(self, operation, key, values, body=None, query=None, read=True, headers=None):
        if operation.websocket:
            return self.socket(operation, key, values, query)
        connection = http.client.HTTPConnection(self.address.hostname, self.address.port, timeout=120)
        headers = {**({"X-API-Key": key} if key is not None else {}), **(headers or {})}
        if operation.schema() is not None:
            headers["Content-Type"] = "application/json"
            body = operation.least(operation.schema()) if body is None else body
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
        elif operation.body:
            body = bytes(10240) if body is None else body
        try:
            connection.request(operation.method, operation.url(values, query), body=body, headers=headers)
            answer = connection.getresponse()
            kind = answer.headers.get("Content-Type", "")
            follows = not read or kind.startswith("text/event-stream")
            return Answer(answer.status, kind, b"" if follows else answer.read(), answer.headers)
        finally:
            connection.close()


def text(rng, schema):
    least, most = schema.get("minLength", 0), min(schema.get("maxLength", 40), 40)
    hard = ["", "0", "../../etc/passwd", "a\u0000b", "é\u202e\U0001f600", "' OR 1=1 --", "%00", "\r\nX: y", "1s", "10m",
            "main", "bash", "echo hi", "x" * (schema.get("maxLength", 300) + 1)]
    if rng.random() < 0.5:
        return rng.choice(hard)
    return "".join(rng.choice(string.ascii_lowercase + "/._- ") for _ in range(rng.randint(least, max(least, most))))


def anything(rng):
    return rng.choice([None, True, 0, -1, 1.5, 1e308, "", "x", [], {}, [[]], {"a": {}}, [None], (1 << 63) - 1, "\ud7ff"])
