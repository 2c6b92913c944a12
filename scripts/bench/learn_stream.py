#!/usr/bin/env python3
"""Measures what draft heads learn from a stream of texts that a running server answers with them.

    scripts/bench/learn_stream.py --gorgon target/release/gorgon --heads RUN/heads --work FOLDER \\
        --out benchmarks/learn_stream.jsonl

The heads are copied, and one `gorgon serve --learn` serves with the copy from beginning to end. In each of four rounds
it answers 200 questions, greedily; then `gorgon train` continues from the heads on the log, and publishes them if they
are better on its held-out share; the server takes them up while it runs. Before the first round and after each, 200
other questions, which no log has, are decoded by `gorgon bench`: tokens per step, and equality with plain decoding. The
server's answers to ten questions are compared before, during and after. One row of JSON a measurement is appended to
--out. Questions are held-out dialogues of the synthetic corpus. Only the standard library is needed.
"""

import argparse
import http.client
import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

CONFIG = """method = "medusa"
model = "{model}"
data = "{work}/log"
init_from = "{work}/heads"
runs = "{work}/runs"
keep_start = true
publish = true
labels = "{labels}"
held_out = 0.2
seed = 1
eval_decoded_prompts = 0
[medusa]
heads = {heads}
[training]
epochs = {epochs}
gradient_accumulation = 1
micro_batch_tokens = 1024
max_seq_len = 512
learning_rate = {rate}
eval_every = 25
save_every = 25
"""


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.renewed, self.port = threading.Semaphore(0), None
        for line in self.process.stderr:
            if found := re.search(r" is served at http://[^:]+:(\d+)", line):
                self.port = int(found.group(1))
                break
        else:
            raise SystemExit("the server did not start")
        threading.Thread(target=self.listen, daemon=True).start()
        self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def listen(self):
        for line in self.process.stderr:
            if "newer weights of the drafter, for" in line:
                self.renewed.release()

    def ask(self, question, tokens):
        asked = {"messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": tokens}
        self.connection.request("POST", "/v1/chat/completions", json.dumps(asked), {"Content-Type": "application/json"})
        reply = self.connection.getresponse()
        text = reply.read()
        if reply.status != 200:
            raise SystemExit(f"status {reply.status}: {text[:300]}")
        return json.loads(text)["choices"][0]["message"]["content"]

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr}")
    return done


def measured(args, work):
    command = [args.gorgon, "bench", "--model", args.model, "--heads", f"{work}/heads", "--tree", args.tree, "--json"]
    command += ["--prompts", f"{work}/measured.jsonl", "--limit", str(args.texts), "--rounds", "1"]
    document = json.loads(run(command + ["--max-new-tokens", str(args.tokens)]).stdout)
    drafted = [run for run in document["runs"] if run["drafted"]]
    return {"tokens_per_step": document["summary"]["tokens_per_step"], "texts": len(drafted), "same_texts": sum(run["same"] for run in drafted)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gorgon", default="target/release/gorgon")
    parser.add_argument("--model", default="checkpoints/tiny")
    parser.add_argument("--heads", required=True, help="the folder of Medusa heads to begin with")
    parser.add_argument("--work", required=True, help="a folder for log, runs and heads; it must not exist")
    parser.add_argument("--out", default="benchmarks/learn_stream.jsonl")
    parser.add_argument("--name", default="", help="what the heads to begin with are, for the rows")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--tree", default="chain:4")
    parser.add_argument("--labels", default="answers")
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--rate", type=float, default=1e-3)
    args = parser.parse_args()
    work = Path(args.work).resolve()
    work.mkdir(parents=True)
    shutil.copytree(args.heads, work / "heads")
    heads = json.loads((work / "heads/config.json").read_text())["medusa_num_heads"]
    dialogues = (args.rounds + 1) * args.texts
    run([args.gorgon, "dev", "synth", "--dialogues", str(dialogues), "--held-out", "--seed", "5", "--out", f"{work}/all.jsonl"])
    lines = (work / "all.jsonl").read_text().splitlines()
    (work / "measured.jsonl").write_text("\n".join(lines[: args.texts]) + "\n")
    asked = [json.loads(line)["conversations"][0]["value"] for line in lines[args.texts :]]
    settings = {"model": args.model, "work": work, "heads": heads, "labels": args.labels, "epochs": args.epochs}
    (work / "learn.toml").write_text(CONFIG.format(**settings, rate=args.rate))
    command = [args.gorgon, "serve", "--model", args.model, "--heads", f"{work}/heads", "--tree", args.tree]
    server = Server(command + ["--port", "0", "--batch", "4", "--learn", f"{work}/log"])
    known = None
    try:
        for number in range(args.rounds + 1):
            row = {"kind": "learn_stream", "heads": args.name or args.heads, "round": number, "labels": args.labels}
            if number > 0:
                for question in asked[(number - 1) * args.texts :][: args.texts]:
                    server.ask(question, args.tokens)
                said = run([args.gorgon, "train", "-c", f"{work}/learn.toml", "--no-progress"]).stderr
                row["published"] = "published: " in said
                if row["published"] and not server.renewed.acquire(timeout=60):
                    raise SystemExit("the server did not take the new heads up")
            answers = [server.ask(question, args.tokens) for question in asked[:10]]
            known = known or answers
            log = sum(path.stat().st_size for path in work.glob("log/shard-*.parquet"))
            row |= {"log_bytes": log, "same_answers": answers == known, "tree": args.tree, **measured(args, work)}
            with open(args.out, "a") as out:
                out.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
