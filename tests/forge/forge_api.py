"""The REST APIs of GitHub, GitLab and Gitea, as far as pull requests need them.

Requests are checked against excerpts, written by hand, of the published descriptions: GitHub's OpenAPI (pulls/create, pulls/list),
GitLab's "Merge requests API", Gitea's swagger (CreatePullRequestOption, repoListPullRequests). What does not conform is kept in
`broken` and fails the test.
"""
import http.server
import json
import re
import threading
import urllib.parse

import pytest

jsonschema = pytest.importorskip("jsonschema", reason="no python3-jsonschema on this host")

TEXT, FLAG, COUNT = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}

GITHUB_CREATE = {
    "type": "object", "required": ["head", "base"], "additionalProperties": False,
    "properties": {"title": TEXT, "head": TEXT, "head_repo": TEXT, "base": TEXT, "body": TEXT, "maintainer_can_modify": FLAG,
                   "draft": FLAG, "issue": COUNT}}
GITLAB_CREATE = {
    "type": "object", "required": ["source_branch", "target_branch", "title"], "additionalProperties": False,
    "properties": {"source_branch": TEXT, "target_branch": TEXT, "title": TEXT, "description": {"type": "string", "maxLength": 1048576},
                   "assignee_id": COUNT, "labels": TEXT, "milestone_id": COUNT, "remove_source_branch": FLAG, "squash": FLAG,
                   "target_project_id": COUNT, "allow_collaboration": FLAG}}
GITEA_CREATE = {
    "type": "object", "additionalProperties": False, "required": ["head", "base", "title"],
    "properties": {"assignee": TEXT, "assignees": {"type": "array", "items": TEXT}, "base": TEXT, "body": TEXT, "due_date": TEXT,
                   "head": TEXT, "labels": {"type": "array", "items": COUNT}, "milestone": COUNT, "title": TEXT}}

LISTS = {
    "github": {"state": r"open|closed|all", "head": r"[^:]+:.+", "base": r".+", "sort": ".*", "direction": ".*", "per_page": r"\d+", "page": r"\d+"},
    "gitlab": {"state": r"all|opened|closed|locked|merged", "source_branch": ".+", "target_branch": ".+", "per_page": r"\d+"},
    "gitea": {"state": r"open|closed|all", "sort": r"oldest|recentupdate|recentclose|leastupdate|mostcomment|leastcomment|priority",
              "limit": r"\d+", "page": r"\d+"},
}
CREATES = {"github": GITHUB_CREATE, "gitlab": GITLAB_CREATE, "gitea": GITEA_CREATE}
BASES = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}


class ForgeApi:
    def __init__(self, kind, repo="owner/repo", token="good-token-123456"):
        self.kind, self.repo, self.token = kind, repo, token
        self.requests, self.broken, self.pulls = [], [], []
        self.fault = None  # (status, body, headers) for everything
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *args):
                pass

            def answer(self):
                outer.serve(self)

            do_GET = do_POST = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def api(self):
        return f"http://127.0.0.1:{self.port}{BASES[self.kind]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def check(self):
        assert not self.broken, self.broken

    def authorized(self, headers):
        given = headers.get("Authorization", "")
        if self.kind == "gitea":
            return given == f"token {self.token}"
        return given == f"Bearer {self.token}"

    def paths(self):
        if self.kind == "gitlab":
            return BASES["gitlab"] + "/projects/" + urllib.parse.quote(self.repo, safe="") + "/merge_requests"
        return f"{BASES[self.kind]}/repos/{self.repo}/pulls"

    def describe(self, number, body):
        head = body.get("head") or body.get("source_branch")
        base = body.get("base") or body.get("target_branch")
        page = f"http://127.0.0.1:{self.port}/{self.repo}/pulls/{number}"
        if self.kind == "gitlab":
            return {"id": 900 + number, "iid": number, "web_url": page, "state": "opened", "title": body["title"],
                    "source_branch": head, "target_branch": base}
        return {"id": 900 + number, "number": number, "html_url": page, "state": "open", "title": body["title"],
                "head": {"ref": head}, "base": {"ref": base}}

    def find(self, query):
        def matches(pull):
            head = pull.get("source_branch") or pull["head"]["ref"]
            base = pull.get("target_branch") or pull["base"]["ref"]
            if self.kind == "github" and "head" in query:
                return query["head"] == f"{self.repo.split('/')[0]}:{head}" and query.get("base", base) == base
            if self.kind == "gitlab" and "source_branch" in query:
                return query["source_branch"] == head and query.get("target_branch", base) == base
            return True
        return [pull for pull in self.pulls if matches(pull)]

    def handle(self, method, path, query, body, headers):
        """(status, answer)"""
        if not headers.get("User-Agent"):
            self.broken.append("no User-Agent")
        if self.fault:
            return self.fault[0], self.fault[1]
        if not self.authorized(headers):
            return 401, {"message": "Bad credentials"}
        if path != self.paths():
            return 404, {"message": "Not Found"}
        if method == "GET":
            for name, value in query.items():
                if name not in LISTS[self.kind] or not re.fullmatch(LISTS[self.kind][name], value):
                    self.broken.append(f"query {name}={value}")
            return 200, self.find(query)
        if headers.get("Content-Type") != "application/json":
            self.broken.append(f"Content-Type {headers.get('Content-Type')}")
        try:
            jsonschema.validate(body, CREATES[self.kind])
        except jsonschema.ValidationError as wrong:
            self.broken.append(wrong.message)
            return 422, {"message": "Validation Failed"}
        self.pulls.append(self.describe(len(self.pulls) + 1, body))
        return 201, self.pulls[-1]

    def serve(self, request):
        path, _, text = request.path.partition("?")
        query = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        body = json.loads(body) if body else None
        self.requests.append({"method": request.command, "path": path, "query": query, "body": body, "headers": dict(request.headers)})
        status, answer = self.handle(request.command, path, query, body, request.headers)
        data = json.dumps(answer).encode()
        request.send_response(status)
        for name, value in (self.fault[2] if self.fault else {}).items():
            request.send_header(name, value)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def created(self):
        return [r["body"] for r in self.requests if r["method"] == "POST"]
