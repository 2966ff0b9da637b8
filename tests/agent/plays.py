"""What the model does in the scenarios: the same plays for every protocol, for `hutch ask` and for `hutch chat`.

A play is a function that makes the replies anew. Replies that depend on what a tool said are made by after().
"""
import re

from model_reply import Reply, call

HELLO = 'print("Hello, world!")\n'

SERVICE = '''\
"""A web service with one page."""
import http.server
import json


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        found = self.path == "/health"
        body = json.dumps({"status": "ok"} if found else {"error": "no such page"}).encode()
        self.send_response(200 if found else 404)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.HTTPServer(("127.0.0.1", 8765), Handler).serve_forever()
'''

GET = '''\
import sys, time, urllib.request
for attempt in range(int(sys.argv[1])):
    try:
        with urllib.request.urlopen("http://127.0.0.1:8765/health") as answer:
            sys.exit(print("answer:", answer.status, answer.read().decode()))
    except OSError as error:
        said = error
        time.sleep(0.05)
print("no answer:", said)
'''

FILTER = '''\
"""Prints the rows of a CSV file whose column is at least a number: filter_csv.py FILE COLUMN NUMBER"""
import csv
import sys


def matching(rows, column, least):
    return [row for row in rows if float(row[column]) > least]


if __name__ == "__main__":
    with open(sys.argv[1], newline="") as file:
        for row in matching(csv.DictReader(file), sys.argv[2], float(sys.argv[3])):
            print(",".join(row.values()))
'''

SALES = "region,amount\nnorth,120\nsouth,80\neast,100\nwest,99.5\n"

TEST_FILTER = '''\
import csv
import unittest

from filter_csv import matching


class TestFilter(unittest.TestCase):
    def setUp(self):
        with open("sales.csv", newline="") as file:
            self.rows = list(csv.DictReader(file))

    def test_keeps_what_is_more(self):
        self.assertIn("north", [r["region"] for r in matching(self.rows, "amount", 100)])

    def test_keeps_what_is_equal(self):
        self.assertIn("east", [r["region"] for r in matching(self.rows, "amount", 100)])

    def test_drops_what_is_less(self):
        self.assertNotIn("west", [r["region"] for r in matching(self.rows, "amount", 100)])


if __name__ == "__main__":
    unittest.main()
'''


def after(text, *blocks, **how):
    """A reply to a result that holds `text`; anything else is a problem of the request."""

    def reply(request):
        assert text in request.result, f"{text!r} is not in the result {request.result[-1500:]!r}"
        return Reply(*blocks, **how)

    return reply


def hello(**how):
    return [Reply("I will write the script. ", call("write_file", path="hello.py", content=HELLO), **how),
            Reply("Now I run it. ", call("bash", command="python3 hello.py"), **how),
            after("Hello, world!", "It greets the world.", **how)]


HELLO_SAID = "I will write the script. Now I run it. It greets the world."


def service(**how):
    def handle(request):
        found = re.search(r"handle[^0-9]*(\d+)", request.result)
        assert found, f"no handle in {request.result!r}"
        return Reply(call("bash", command="python3 get.py 200"), **how)

    def stop(request):
        assert 'answer: 200 {"status": "ok"}' in request.result, request.result
        number = next(re.search(r"handle[^0-9]*(\d+)", r.text) for r in request.results if "handle" in r.text).group(1)
        return Reply(call("bash", handle=int(number), kill=True), **how)

    return [Reply("A small service. ", call("write_file", path="service.py", content=SERVICE),
                  call("write_file", path="get.py", content=GET), **how),
            Reply(call("bash", command="python3 service.py", background=True), **how),
            handle, stop,
            Reply(call("bash", command="python3 get.py 1"), **how),
            after("no answer:", "It was healthy, and is stopped.", **how)]


def csv_filter(**how):
    return [Reply("Code, data and tests. ", call("write_file", path="filter_csv.py", content=FILTER),
                  call("write_file", path="sales.csv", content=SALES),
                  call("write_file", path="test_filter.py", content=TEST_FILTER), **how),
            Reply(call("run_tests"), **how),
            after("1 failed", "An edge is wrong. ",
                  call("edit_file", path="filter_csv.py", old="float(row[column]) > least", new="float(row[column]) >= least"), **how),
            Reply(call("run_tests"), **how),
            after("3 passed", call("bash", command="python3 filter_csv.py sales.csv amount 100"), **how),
            after("north,120\neast,100", "The filter works.", **how)]
