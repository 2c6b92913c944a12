#!/usr/bin/env python3
"""What `gorgon quantize` costs and what its search for scales brings.

    python3 scripts/bench/quantize.py --gorgon target/release/gorgon --out OUT.jsonl

For checkpoints/tiny the texts are the first 64 held-out dialogues with their answers; for ../shared/models/stories260k
they are 64 openings of stories, each with 120 tokens that the model itself sampled. Each row is the report of one run,
with and without the search, int8 and int4 with each size of group. Only the standard library is needed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TINY, STORIES = ROOT / "checkpoints/tiny", ROOT / "../shared/models/stories260k"
RUNS = [["int8"], *[["int4", "--group", str(group)] for group in (128, 64, 32)]]
KEPT = ("model", "to", "scales", "kinds", "bits_per_weight", "bytes_before", "bytes_after", "weights_in_integers",
        "rounding_seconds", "seconds", "agreement")


def run(gorgon, *args):
    done = subprocess.run([gorgon, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, args))}: {done.stdout}{done.stderr}")
    return done.stdout


def stories(gorgon, folder):
    """A file of openings with sampled continuations."""
    subprocess.run([sys.executable, ROOT / "scripts/story_prompts.py", folder], check=True, capture_output=True)
    lines = (folder / "train.txt").read_text().splitlines()[:64]
    texts = folder / "stories.jsonl"
    with texts.open("w") as file:
        for seed, opening in enumerate(lines):
            said = json.loads(run(gorgon, "generate", "--model", STORIES, "--prompt", opening, "--raw", "--temperature", 1,
                                  "--seed", seed, "--max-new-tokens", 120, "--json"))
            file.write(json.dumps({"conversations": [{"from": "human", "value": opening + said["text"]}]}) + "\n")
    return texts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gorgon", default="target/release/gorgon")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, args.out.open("w") as out:
        scratch = Path(scratch)
        cases = [(TINY, ROOT / "datasets/tiny-chat/held_out.jsonl"), (STORIES, stories(args.gorgon, scratch))]
        for model, texts in cases:
            for index, options in enumerate(RUNS):
                for search in ([], ["--no-search"]):
                    folder = scratch / f"{model.name}-{index}-{len(search)}"
                    report = json.loads(run(args.gorgon, "quantize", model, folder, "--to", *options, *search,
                                            "--prompts", texts, "--json"))
                    row = {"group": int(options[2]) if len(options) > 1 else None} | {key: report[key] for key in KEPT}
                    out.write(json.dumps(row) + "\n")
                    found = report["agreement"]["activations_f32"]
                    print(model.name, *options, *search, f"{found['kl_nats_per_position']:.3e}",
                          f"{found['top1_agreement']:.4f}", f"{report['bits_per_weight']:.3f}", flush=True)


if __name__ == "__main__":
    main()
