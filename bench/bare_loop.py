#!/usr/bin/env python3
"""The least that an agent can be, to measure hutch against: one keep-alive connection, one shell per call, no sandbox.

    bare_loop.py PROMPT

Speaks Anthropic's Messages to $ANTHROPIC_BASE_URL with a stream, runs each `bash` call with subprocess, and answers until
the model asks for no more. It keeps no history, knows no retry and no limit.
"""
import http.client
import json
import os
import subprocess
import sys

TOOL = {"name": "bash", "description": "Runs a command.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}
HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01", "x-api-key": os.environ["ANTHROPIC_API_KEY"]}


def ask(connection, messages):
    """The blocks of one answer."""
    body = {"model": "scripted-1", "max_tokens": 4096, "stream": True, "tools": [TOOL], "messages": messages}
    connection.request("POST", "/v1/messages", json.dumps(body), HEADERS)
    blocks, partial = [], ""
    for line in connection.getresponse():
        if not line.startswith(b"data: "):
            continue
        event = json.loads(line[6:])
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"])
            partial = ""
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            if delta["type"] == "text_delta":
                blocks[-1]["text"] += delta["text"]
                sys.stdout.write(delta["text"])
            else:
                partial += delta["partial_json"]
        elif event["type"] == "content_block_stop" and blocks[-1]["type"] == "tool_use":
            blocks[-1]["input"] = json.loads(partial or "{}")
    return blocks


def run(block):
    done = subprocess.run(["bash", "-c", block["input"]["command"]], capture_output=True, text=True, check=False)
    return {"type": "tool_result", "tool_use_id": block["id"], "content": f"exit code {done.returncode}\n{done.stdout}{done.stderr}"}


def main(prompt):
    connection = http.client.HTTPConnection(os.environ["ANTHROPIC_BASE_URL"].removeprefix("http://"))
    messages = [{"role": "user", "content": prompt}]
    while True:
        blocks = ask(connection, messages)
        calls = [b for b in blocks if b["type"] == "tool_use"]
        if not calls:
            return
        messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [run(b) for b in calls]}]


if __name__ == "__main__":
    main(sys.argv[1])
