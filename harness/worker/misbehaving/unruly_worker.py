#!/usr/bin/env python3
"""The worker of example_worker.py, with one breach of protocol.md: unruly_worker.py EXAMPLE_WORKER BREACH.
Each breach is committed at the second reply to a run; `none` is the twin that keeps the protocol."""

import importlib.util
import json
import socket
import sys

spec = importlib.util.spec_from_file_location("example_worker", sys.argv[1])
example = importlib.util.module_from_spec(spec)
spec.loader.exec_module(example)
breach, runs = sys.argv[2], 0

control = socket.socket(fileno=example.CONTROL)
worker = example.Worker()
for line in control.makefile("r", encoding="utf-8"):
    request = json.loads(line)
    if request["type"] == "bye":
        break
    reply = {**worker.answer(request), "id": request["id"]}
    runs += request["type"] == "run"
    text = json.dumps(reply) + "\n"
    if runs == 2 and request["type"] == "run":
        if breach == "no_id":
            text = json.dumps({k: v for k, v in reply.items() if k != "id"}) + "\n"
        elif breach == "wrong_id":
            text = json.dumps({**reply, "id": request["id"] + 1}) + "\n"
        elif breach == "text_id":
            text = json.dumps({**reply, "id": str(request["id"])}) + "\n"
        elif breach == "two_replies":
            text += text
        elif breach == "bytes_before":
            text = "\n" + text
        elif breach == "bytes_behind":
            text += "{"
        elif breach.startswith("finding_"):
            finding = {"type": "failed", "reason": "found by the worker",
                       "finding": breach.removeprefix("finding_")}
            text = json.dumps({**finding, "id": request["id"]}) + "\n"
        elif breach == "no_json":
            text = "done\n"
    if runs == 2 and request["type"] == "ping":
        if breach == "no_pong":
            continue
        if breach == "other_pong":
            text = json.dumps({"type": "failed", "reason": "", "id": request["id"]}) + "\n"
        elif breach == "two_pongs":
            text += text
        elif breach == "bytes_behind_pong":
            text += "{"
    control.sendall(text.encode())
