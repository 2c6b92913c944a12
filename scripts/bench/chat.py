#!/usr/bin/env python3
"""Tokens per second of whole chats: plainly, with fixed trees, and with trees whose size follows from step times.

    python3 scripts/bench/chat.py GORGON MODEL HEADS OUT.jsonl [OPTION...]

HEADS are calibrated; a copy without their calibration stands for heads that are not. Every way answers the same
messages in each of five rounds, in alternating order. Writes one row per chat, and prints medians of the ratios to
plain decoding of the same round, with the least and the greatest.
"""
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

MESSAGES = [
    "Tell me a story.", "What is 12 + 30?", "Tell me a story about a fox.", "Sort these words: pear, fig, apple.",
    "Count from 1 to 12.", "Tell me a story about a bird.", "Who are you?", "Tell me a story.",
]
ROUNDS = 5


def chat(gorgon, model, options):
    command = [gorgon, "chat", "--model", model, "--json", "-q", *options]
    done = subprocess.run(command, input="\n".join(MESSAGES) + "\n", capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    turns = document["turns"]
    return {
        "tree": document["tree"],
        "tokens": sum(len(turn["ids"]) for turn in turns),
        "steps": sum(turn["steps"] for turn in turns),
        "seconds": sum(turn["seconds"] for turn in turns),
        "first_token_ms": [round(1e3 * turn["prefill_seconds"], 2) for turn in turns],
        "prompt_tokens": [turn["prompt_tokens"] for turn in turns],
    }, [turn["ids"] for turn in turns]


def main():
    gorgon, model, heads, out, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        bare = pathlib.Path(folder, "heads")
        shutil.copytree(heads, bare)
        for name in ("tree.json", "calibration.json", "bench.json"):
            bare.joinpath(name).unlink(missing_ok=True)
        ways = {
            "plain": ["--drafter", "none"],
            "mc_sim_7b_63, not calibrated": ["--heads", str(bare), "--tree", "mc_sim_7b_63"],
            "calibrated tree in every step": ["--heads", heads, "--tree", "calibrated"],
            "by times, not calibrated": ["--heads", str(bare)],
            "calibrated": ["--heads", heads],
        }
        rows, truth = [], None
        for number in range(ROUNDS):
            order = list(ways) if number % 2 == 0 else list(ways)[::-1]
            for way in order:
                row, text = chat(gorgon, model, [*options, *ways[way]])
                truth = truth or text
                rows.append({"model": pathlib.Path(model).name, "round": number, "way": way, **row,
                             "same_text": text == truth})
    pathlib.Path(out).write_text("".join(json.dumps(row) + "\n" for row in rows))
    speed = {(row["round"], row["way"]): row["tokens"] / row["seconds"] for row in rows}
    for way in ways:
        own = [row for row in rows if row["way"] == way]
        ratios = [speed[number, way] / speed[number, "plain"] for number in range(ROUNDS)]
        print(f"{way:30} {own[0]['tree']:14} {own[0]['tokens'] / own[0]['steps']:5.2f} tokens/step"
              f"  {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
              f"  same text {sum(row['same_text'] for row in own)}/{len(own)}")


main()
