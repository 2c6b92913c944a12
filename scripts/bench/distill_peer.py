"""Throughput of self-distillation: `gorgon distill` beside a static-batch loop of transformers.

The same weights, the first turns of the same dialogues, greedy answers, the same number of threads. Contestants take turns in
an order that rotates; what is counted are answer tokens per second of answering, loading apart. transformers gets
batches sorted by the length of their prompts, padded on the left, in f32, and `generate` ends a batch when its longest
answer ends. "f16" reads the weights as they are stored, "f32" a copy that was widened. Every run is a line of the output;
the table at the end has medians. Seconds of processor time are told too, since they suffer less from other work on the machine.
"""
import argparse, json, os, re, resource, shutil, statistics, struct, subprocess, time

parser = argparse.ArgumentParser()
for name in ["gorgon", "model", "dialogues", "work", "out"]:
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--heads", help="draft heads: adds drafted decoding")
parser.add_argument("--tree", help="their tree")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--new-tokens", type=int, default=256)
parser.add_argument("--sizes", default="1,4,8,16,32,64", help="batch sizes here")
parser.add_argument("--peer-sizes", default="16,64", help="batch sizes of transformers; empty leaves it out")
parser.add_argument("--dtypes", default="f32,f16", help="f32, f16, bf16 or bf16-products (--compute-dtype bf16)")
parser.add_argument("--drafted-sizes", default="1,4,16", help="batch sizes with drafts")
options = parser.parse_args()

PROMPTS = os.path.join(options.work, "prompts.jsonl")


def write_prompts():
    prompts = []
    with open(options.dialogues) as file:
        for line in file:
            first = next(turn for turn in json.loads(line)["conversations"] if turn["from"] == "human")
            prompts.append(first["value"])
    with open(PROMPTS, "w") as file:
        file.writelines(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts)
    with open(os.path.join(options.work, "distill.toml"), "w") as file:
        file.write(
            f"model = {json.dumps(options.model)}\nout = {json.dumps(os.path.join(options.work, 'out'))}\n"
            f"prompts = [{json.dumps(PROMPTS)}]\nmax_tokens = 1024\n[sampling]\nmax_new_tokens = {options.new_tokens}\n"
        )
    return prompts


def child_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def widened():
    """A copy of the model in f32: asked for f32, the engine keeps 16 bits where a checkpoint has them."""
    folder = os.path.join(options.work, "widened")
    shutil.copytree(options.model, folder)
    path = os.path.join(folder, "model.safetensors")
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    count = len(data) // 2
    for name, tensor in header.items():
        if name != "__metadata__":
            assert tensor["dtype"] == "F16", f"{name} is in {tensor['dtype']}"
            tensor["dtype"], tensor["data_offsets"] = "F32", [2 * at for at in tensor["data_offsets"]]
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", data)))


def here(size, dtype, drafted):
    """One run of `gorgon distill`."""
    out = os.path.join(options.work, "out")
    shutil.rmtree(out, ignore_errors=True)
    keys = [f"batch_size={size}"] + ([f"model={os.path.join(options.work, 'widened')}"] if dtype == "f32" else [])
    if drafted:
        keys += [f"heads={options.heads}"] + ([f"tree={options.tree}"] if options.tree else [])
    command = [options.gorgon, "distill", "-c", os.path.join(options.work, "distill.toml"), *keys]
    command += ["--compute-dtype", "bf16"] if dtype == "bf16-products" else ["--dtype", dtype]
    before = child_seconds()
    ran = subprocess.run(
        command + ["--threads", str(options.threads), "--no-progress"], check=True, capture_output=True, text=True
    )
    speed = float(re.findall(r"· (\d+) tokens/s", ran.stderr)[-1])
    answers = {}
    with open(os.path.join(out, "answers.jsonl")) as file:
        for row in map(json.loads, file):
            if "ids" in row:
                answers[row["row"]] = row["ids"]
    return speed, child_seconds() - before, answers


def peer_of(prompts):
    """A function that answers all prompts with transformers in batches of a size."""
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"{error}: give a Python that has scripts/bench/requirements.txt, or --peer-sizes=") from error
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.set_num_threads(options.threads)
    tokenizer = AutoTokenizer.from_pretrained(options.model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(options.model, dtype=torch.float32).eval()
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    texts = [
        tokenizer.apply_chat_template([{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True)
        for prompt in prompts
    ]
    ids = tokenizer(texts, add_special_tokens=False).input_ids
    order = sorted(range(len(ids)), key=lambda row: len(ids[row]))
    eos = model.generation_config.eos_token_id
    ends = set(eos if isinstance(eos, list) else [eos])

    @torch.inference_mode()
    def answer(size):
        answers, seconds = {}, 0.0
        before = time.process_time()
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            padded = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt")
            started = time.perf_counter()
            output = model.generate(**padded, max_new_tokens=options.new_tokens, do_sample=False)
            seconds += time.perf_counter() - started
            for row, line in zip(rows, output[:, padded.input_ids.shape[1] :].tolist()):
                end = next((i + 1 for i, token in enumerate(line) if token in ends), len(line))
                answers[row] = line[:end]
        return sum(map(len, answers.values())) / seconds, time.process_time() - before, answers

    return answer


def main():
    prompts = write_prompts()
    widened()
    sizes = [int(size) for size in options.sizes.split(",")]
    contestants = [("gorgon", dtype, "plain", size) for dtype in options.dtypes.split(",") for size in sizes]
    if options.heads:
        contestants += [("gorgon", "f16", "drafted", int(size)) for size in options.drafted_sizes.split(",")]
    peer_sizes = [int(size) for size in options.peer_sizes.split(",") if size]
    answer = peer_of(prompts) if peer_sizes else None
    contestants += [("transformers", "f32", "plain", size) for size in peer_sizes]
    rows, known = [], {}
    with open(options.out, "w") as out:
        for round in range(options.rounds):
            shift = round * 3 % len(contestants)
            for contestant in contestants[shift:] + contestants[:shift]:
                engine, dtype, how, size = contestant
                speed, cpu, answers = answer(size) if engine == "transformers" else here(size, dtype, how == "drafted")
                known.setdefault(dtype, answers if engine == "gorgon" else {})
                same = sum(known[dtype].get(row) == ids for row, ids in answers.items())
                rows.append(
                    {"round": round, "engine": engine, "dtype": dtype, "how": how, "batch": size,
                     "tokens_per_second": round_to(speed), "cpu_seconds": round_to(cpu),
                     "tokens": sum(map(len, answers.values())), "answers": len(answers), "same_answers": same,
                     "threads": options.threads}
                )  # fmt: skip
                out.write(json.dumps(rows[-1]) + "\n")
                out.flush()
    for contestant in contestants:
        mine = [r for r in rows if (r["engine"], r["dtype"], r["how"], r["batch"]) == contestant]
        speeds = [r["tokens_per_second"] for r in mine]
        tokens, cpu = mine[0]["tokens"], statistics.median(r["cpu_seconds"] for r in mine)
        print(
            f"{contestant[0]:12} {contestant[1]} {contestant[2]:7} batch {contestant[3]:3}: {statistics.median(speeds):7.0f} "
            f"tokens/s ({min(speeds):.0f}–{max(speeds):.0f}), {1000 * cpu / tokens:.3f} ms of processor per token, "
            f"{min(r['same_answers'] for r in mine)} of {mine[0]['answers']} answers the same"
        )


def round_to(value):
    return round(value, 2)


main()
