#!/usr/bin/env python3
"""Measures gorgon serve beside generate, distill and, with --python, transformers serve, on equal weights.

    scripts/bench/serve_speed.py --gorgon target/release/gorgon --python VENV/bin/python --out benchmarks/serve_speed.json

Everything runs on this machine, in rounds of alternating order. All answers are greedy, and drafts are off. One client
is compared with generate in decoded tokens per second (both report it, the prompt left out), sixteen clients with
distill at a batch of 16 in answered tokens per second of the whole job; 24 clients show what the server does where
every slot has its next request at hand. The time to the first text is measured with
1, 4, 16 and 64 clients that stream. VENV needs transformers[serving]. Only the standard library is needed here.
"""

import argparse
import http.client
import json
import os
import re
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path


def questions(path):
    lines = (json.loads(line) for line in Path(path).read_text().splitlines())
    return [line["conversations"][0]["value"] for line in lines]


class Server:
    def __init__(self, command, port, started):
        # Clients keep their connections, one for each thread.
        self.connections = threading.local()
        self.port, self.process = port, subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        for line in self.process.stderr:
            if found := re.search(started, line):
                self.port = int(found.group(1)) if found.groups() else port
                break
        else:
            raise SystemExit(f"{command[0]} did not start")
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def ask(self, request):
        """The answer and the seconds to its first text (None where it comes in one piece)."""
        connection = self.connections.__dict__.setdefault("kept", http.client.HTTPConnection("127.0.0.1", self.port, timeout=300))
        began = time.monotonic()
        connection.request("POST", "/v1/chat/completions", json.dumps(request), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise SystemExit(f"status {reply.status}: {reply.read()[:300]}")
        if not request.get("stream"):
            return json.loads(reply.read()), None
        first = None
        while line := reply.readline():
            if first is None and b'"content":"' in line.replace(b'": "', b'":"') and b'"content":""' not in line:
                first = time.monotonic() - began
        return None, first

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def at_once(server, requests, clients):
    """All requests by so many clients: answers with their first-text seconds, and seconds of the whole."""
    rest, found, lock = list(requests), [], threading.Lock()

    def work():
        while True:
            with lock:
                if not rest:
                    return
                request = rest.pop()
            found.append(server.ask(request))

    threads = [threading.Thread(target=work) for _ in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found, time.monotonic() - began


def body(model, question, tokens, **more):
    asked = [{"role": "user", "content": question}]
    return {"model": model, "messages": asked, "temperature": 0, "max_tokens": tokens, **more}


def one_client(server, args, question):
    answer, _ = server.ask(body(args.name, question, 200, ignore_eos=True))
    return answer["timings"]["predicted_per_second"]


def generate(args, question):
    command = [args.gorgon, "generate", "--model", args.model, "--prompt", question, "--drafter", "none", "--json"]
    out = subprocess.run(command + ["--max-new-tokens", "200", "--ignore-eos"], check=True, capture_output=True).stdout
    return json.loads(out)["tokens_per_second"]


def distill(args, folder, number):
    config = f"""model = "{args.model}"
out = "{folder}/data-{number}"
prompts = ["{folder}/prompts.jsonl"]
batch_size = 16
max_tokens = 512
self_talk_turns = 0
[sampling]
temperature = 0.0
max_new_tokens = 128
"""
    Path(f"{folder}/distill.toml").write_text(config)
    subprocess.run([args.gorgon, "distill", "-c", f"{folder}/distill.toml"], check=True, capture_output=True)
    report = json.loads(Path(f"{folder}/data-{number}/report.json").read_text())
    return report["assistant_tokens"] / report["plan"]["answering_seconds"]["measured"]


class Lean:
    """Asks a server over one connection a thread, and only reads the bytes: the clients share the machine's cores with it."""

    def __init__(self, port):
        self.port, self.connections = port, threading.local()

    def ask(self, request):
        connection = self.connections.__dict__.get("kept")
        if connection is None:
            connection = self.connections.kept = socket.create_connection(("127.0.0.1", self.port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(request)
        reply = connection.recv(1 << 16)
        while b"\r\n\r\n" not in reply:
            reply += connection.recv(1 << 16)
        head, text = reply.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"(?i)content-length: *(\d+)", head).group(1))
        while len(text) < length:
            text += connection.recv(1 << 16)
        return text, head


def clients(server, args, asked, count, shares=None):
    def posted(question):
        text = json.dumps(body(args.name, question, 128)).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(text)}"
        return head.encode() + b"\r\n\r\n" + text

    requests = [posted(question) for question in asked]
    began = time.process_time()
    found, seconds = at_once(Lean(server.port), requests, count)
    if shares is not None:
        shares.append((time.process_time() - began) / seconds / os.cpu_count())
    if failed := [head for _, head in found if b" 200 " not in head.split(b"\r\n")[0]]:
        raise SystemExit(failed[0].decode())
    return sum(json.loads(text)["usage"]["completion_tokens"] for text, _ in found) / seconds


def first_texts(server, args, asked):
    rows = []
    for clients in (1, 4, 16, 64):
        requests = [body(args.name, question, 64, stream=True) for question in asked]
        firsts = sorted(first for _, first in at_once(server, requests, clients)[0] if first is not None)
        at = lambda part: round(firsts[min(int(part * len(firsts)), len(firsts) - 1)] * 1e3, 2)  # noqa: E731
        rows.append({"clients": clients, "answers": len(firsts), "p50_ms": at(0.5), "p99_ms": at(0.99)})
    return rows


def transformers(args, asked):
    model = str(Path(args.model).resolve())
    command = [str(Path(args.python).parent / "transformers"), "serve", model, "--port", str(args.port), "--device", "cpu"]
    peer = Server(command, args.port, r"Uvicorn running on")
    rows = []
    peer.ask(body(model, asked[0], 8))
    for clients, count in ((1, 10), (16, 32)):
        found, seconds = at_once(peer, [body(model, question, 64) for question in asked[:count]], clients)
        tokens = sum(answer["usage"]["completion_tokens"] for answer, _ in found)
        rows.append({"clients": clients, "answers": count, "tokens_per_second": tokens / seconds})
    peer.stop()
    return rows


def same(args, server, asked):
    """The rows of gorgon serve for the requests that transformers serve gets."""
    rows = []
    for clients, count in ((1, 10), (16, 32)):
        found, seconds = at_once(server, [body(args.name, question, 64) for question in asked[:count]], clients)
        tokens = sum(answer["usage"]["completion_tokens"] for answer, _ in found)
        rows.append({"clients": clients, "answers": count, "tokens_per_second": tokens / seconds})
    return rows


def run(args):
    asked = questions(args.questions)[: args.count]
    command = [args.gorgon, "serve", "--model", args.model, "--port", "0", "--batch", "16", "--queue", "256", "--drafter", "none"]
    server = Server(command, 0, r"is served at http://[^ ]*:(\d+)")
    one, sixteen = {"serve": [], "generate": []}, {"serve": [], "serve_24_clients": [], "distill": []}
    shares = []  # Of the machine's time, taken by the clients themselves.
    with tempfile.TemporaryDirectory() as folder:
        turns = ({"conversations": [{"from": "human", "value": question}]} for question in asked)
        Path(f"{folder}/prompts.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
        for number in range(args.rounds):
            pairs = [(one, "serve", lambda: statistics.median(one_client(server, args, q) for q in asked[:5])),
                     (one, "generate", lambda: statistics.median(generate(args, q) for q in asked[:5])),
                     (sixteen, "serve", lambda: clients(server, args, asked, 16, shares)),
                     (sixteen, "serve_24_clients", lambda: clients(server, args, asked, 24)),
                     (sixteen, "distill", lambda: distill(args, folder, number))]
            for into, name, measure in pairs if number % 2 else reversed(pairs):
                into[name].append(measure())
    ratio = lambda pair, one, other: statistics.median(a / b for a, b in zip(pair[one], pair[other]))  # noqa: E731
    found = {"machine": f"{os.cpu_count()} CPUs", "model": args.model, "one_client": one, "sixteen_clients": sixteen,
             "one_client_over_generate": ratio(one, "serve", "generate"),
             "sixteen_clients_over_distill": ratio(sixteen, "serve", "distill"),
             "twenty_four_clients_over_distill": ratio(sixteen, "serve_24_clients", "distill"),
             "sixteen_clients_cpu_share": statistics.median(shares), "first_text": first_texts(server, args, asked)}
    if args.python:
        found["peer"] = [{"serve": same(args, server, asked), "transformers": transformers(args, asked)} for _ in range(2)]
    server.stop()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gorgon", default="target/release/gorgon")
    parser.add_argument("--model", default="checkpoints/tiny")
    parser.add_argument("--questions", default="datasets/tiny-chat/held_out.jsonl")
    parser.add_argument("--count", type=int, default=640)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", help="a Python with transformers[serving]")
    parser.add_argument("--port", type=int, default=18123, help="of transformers serve")
    parser.add_argument("--out")
    args = parser.parse_args()
    args.name = Path(args.model).name
    found = run(args)
    print(json.dumps(found, indent=1))
    if args.out:
        Path(args.out).write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
