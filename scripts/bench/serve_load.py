#!/usr/bin/env python3
"""Loads gorgon serve with many clients, good and bad, and checks that texts stay those of lone requests.

    scripts/bench/serve_load.py --gorgon target/release/gorgon --seconds 120 --out benchmarks/serve_load.json

It starts a server, asks every question alone and without drafts, and then sends for so many seconds: clients that ask
and compare, clients that leave or are killed in mid-stream, half-open sockets that send a part of a request, clients
that read one byte a second, bodies that are too large, and mutated requests. At the end the server is asked to stop
while clients still ask. Failures are texts that differ, error bodies in another shape, memory that grows, and an exit code that is
not 0. Only the standard library is needed.
"""

import argparse
import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

QUESTIONS = [
    "Tell me a story about a fox and a river.",
    "What is 12 plus 30?",
    "List three fruits.",
    "Who are you?",
    "Give me a recipe for soup.",
    "What is the opposite of warm?",
]
SETTINGS = [
    {"temperature": 0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.0},
    {"temperature": 1.3, "top_k": 30},
    {"temperature": 0, "stop": ["the", "and"]},
]

# Sends a request and passes on the bytes of its answer.
READER = """
import socket, sys
data = sys.argv[2].encode()
head = b"POST /v1/chat/completions HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Type: application/json\\r\\n"
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as stream:
    stream.sendall(head + b"Content-Length: %d\\r\\n\\r\\n" % len(data) + data)
    while part := stream.recv(4096):
        sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
"""


class Server:
    def __init__(self, args):
        command = [args.gorgon, "serve", "--model", args.model, "--port", "0", "--batch", str(args.batch)]
        command += ["--queue", "256", "--cache-tokens", str(args.cache_tokens)] + args.serve
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if " is served at http://" in line:
                self.port = int(line.split("http://", 1)[1].split()[0].rsplit(":", 1)[1])
                break
        else:
            raise SystemExit("the server did not start")
        threading.Thread(target=lambda: [None for _ in self.process.stderr], daemon=True).start()

    def request(self, method, path, body=None, timeout=120):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, body, headers)
        return connection, connection.getresponse()

    def metrics(self):
        connection, reply = self.request("GET", "/metrics")
        text = reply.read().decode()
        connection.close()
        lines = (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        return {name: float(value) for name, value in lines}

    def memory(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


def body(question, setting, seed, **more):
    return {"messages": [{"role": "user", "content": question}], "max_tokens": 48, "seed": seed, **setting, **more}


def texts(events):
    return "".join(event["choices"][0]["delta"].get("content", "") for event in events if event["choices"])


def ask(server, request):
    """The text of an answer, or the status of its refusal."""
    connection, reply = server.request("POST", "/v1/chat/completions", json.dumps(request))
    data = reply.read().decode()
    connection.close()
    if reply.status != 200:
        json.loads(data)["error"]["message"]
        return reply.status, None
    if not request.get("stream"):
        return 200, json.loads(data)["choices"][0]["message"]["content"]
    parts = [part[6:] for part in data.split("\n\n") if part]
    if parts[-1] != "[DONE]":
        raise ValueError(f"a stream ends with {parts[-1][:200]}")
    return 200, texts(json.loads(part) for part in parts[:-1])


class Load:
    def __init__(self, server, alone, seconds, seed):
        self.server, self.alone, self.seed = server, alone, seed
        self.end = time.monotonic() + seconds
        self.counts, self.wrong, self.lock = Counter(), [], threading.Lock()

    def note(self, what, wrong=None):
        with self.lock:
            self.counts[what] += 1
            if wrong and len(self.wrong) < 20:
                self.wrong.append(wrong)

    def run(self, work, number):
        chance = random.Random(self.seed * 1000 + number)
        while time.monotonic() < self.end:
            try:
                work(chance)
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() < self.end:
                    self.note("connection errors", f"{work.__name__}: {error!r}")
            except Exception as error:  # noqa: BLE001: everything else is a finding
                self.note("findings", f"{work.__name__}: {error!r}")

    def good(self, chance):
        at = chance.randrange(len(self.alone))
        request, expected = self.alone[at]
        status, text = ask(self.server, {**request, "stream": chance.random() < 0.6})
        if status == 429:
            self.note("429")
            return time.sleep(chance.random())
        same = status == 200 and text == expected
        self.note("equal texts" if same else "other texts", None if same else f"{request}: {status} {text!r}")

    def leaves(self, chance):
        request, _ = chance.choice(self.alone)
        request = {**request, "stream": True, "max_tokens": 400, "ignore_eos": True}
        connection, reply = self.server.request("POST", "/v1/chat/completions", json.dumps(request))
        reply.read(chance.randrange(1, 2000))
        connection.close()
        self.note("left in mid-stream")
        time.sleep(0.05)

    def killed(self, chance):
        """A client process that reads a stream is killed with -9."""
        request = {**chance.choice(self.alone)[0], "stream": True, "max_tokens": 400, "ignore_eos": True}
        command = [sys.executable, "-S", "-c", READER, str(self.server.port), json.dumps(request)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
            client.stdout.read(chance.randrange(1, 1500))
            client.kill()
        self.note("killed with -9 in mid-stream")

    def half_open(self, chance):
        with socket.create_connection(("127.0.0.1", self.server.port)) as half:
            half.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n"
                         [: chance.randrange(1, 80)])
            time.sleep(chance.random() * 3)
        self.note("half-open")

    def slow(self, chance):
        request = {**chance.choice(self.alone)[0], "stream": True, "max_tokens": 400, "ignore_eos": True}
        data = json.dumps(request).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        with socket.create_connection(("127.0.0.1", self.server.port)) as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            slow.sendall(head + b"Content-Length: %d\r\n\r\n" % len(data) + data)
            for _ in range(5):
                slow.recv(1)
                time.sleep(0.3)
        self.note("slow readers")

    def large(self, chance):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=60)
        try:
            connection.request("POST", "/v1/completions", b"x" * (5 << 20), {"Content-Type": "application/json"})
            status = connection.getresponse().status
        except OSError:
            status = 413  # It may close while the body is sent.
        connection.close()
        self.note("too large", None if status == 413 else f"a large body: {status}")
        time.sleep(chance.random())

    def mutated(self, chance):
        data = bytearray(json.dumps(chance.choice(self.alone)[0]).encode())
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = bytes(chance.randrange(256) for _ in range(chance.randrange(4)))
        connection, reply = self.server.request("POST", "/v1/chat/completions", bytes(data))
        text = reply.read()
        connection.close()
        well = reply.status in (200, 429) or (400 <= reply.status < 500 and b'"error"' in text)
        self.note("mutated", None if well else f"{bytes(data)!r}: {reply.status} {text[:200]!r}")


def run(args):
    server = Server(args)
    alone = []
    for number, question in enumerate(QUESTIONS):
        for kind, setting in enumerate(SETTINGS):
            request = body(question, setting, 100 * number + kind)
            status, text = ask(server, {**request, "drafts": False})
            assert status == 200, status
            alone.append((request, text))
    load = Load(server, alone, args.seconds, args.seed)
    kinds = [load.killed, load.killed, load.leaves, load.half_open, load.half_open, load.slow, load.slow]
    kinds += [load.large, load.mutated]
    work = [load.good] * (args.clients - len(kinds)) + kinds
    threads = [threading.Thread(target=load.run, args=(one, number)) for number, one in enumerate(work)]
    for thread in threads:
        thread.start()
    memory = []
    while time.monotonic() < load.end:
        time.sleep(max(args.seconds / 20, 0.2))
        memory.append(server.memory())
    for thread in threads:
        thread.join()
    time.sleep(1)
    metrics = server.metrics()
    # It is asked to stop while answers are made.
    stopped = threading.Thread(target=lambda: load.good(random.Random(1)))
    stopped.start()
    server.process.send_signal(signal.SIGTERM)
    code = server.process.wait(60)
    third = len(memory) // 3
    # Caches fill in the first third.
    growth = max(memory[2 * third :]) - max(memory[third : 2 * third])
    failures = load.wrong + ([f"exit code {code}"] if code else [])
    failures += [f"memory grew by {growth} bytes"] if growth > 32 << 20 else []
    failures += [f"{metrics['gorgon_batch']} slots are in use"] if metrics["gorgon_batch"] else []
    failures += ["requests failed"] if metrics["gorgon_answers_failed_total"] else []
    return {
        "seconds": args.seconds,
        "clients": args.clients,
        "batch": args.batch,
        "machine": f"{os.cpu_count()} CPUs",
        "counts": dict(sorted(load.counts.items())),
        "rss_bytes": memory,
        "rss_growth_bytes": growth,
        "exit_code": code,
        "metrics": {name: value for name, value in metrics.items() if "{" not in name},
        "failures": failures,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gorgon", default="target/release/gorgon")
    parser.add_argument("--model", default="checkpoints/tiny")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--cache-tokens", type=int, default=16384)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out")
    parser.add_argument("serve", nargs="*", help="more options of gorgon serve, behind --")
    args = parser.parse_args()
    found = run(args)
    print(json.dumps(found, indent=1))
    if args.out:
        Path(args.out).write_text(json.dumps(found) + "\n")
    raise SystemExit(1 if found["failures"] else 0)


if __name__ == "__main__":
    main()
