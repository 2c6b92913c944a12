"""Inputs that change between a kill and the resumption: a mixture of both must not come out."""

import json
import shutil

from compare import difference, digests
from inputs import checkpoints, last_run
from journal import Record
from program import objection
from stages import Distill, Train


def edited(**values):
    """Gives keys of a JSON document other values."""
    return lambda data: json.dumps(json.loads(data) | values).encode()


def replaced(old, new):
    """Replaces the first occurrence."""

    def change(data):
        if old not in data:
            raise RuntimeError(f"no {old!r} to replace")
        return data.replace(old, new, 1)

    return change


def nudged(data):
    """Changes one byte of the last tensor."""
    return data[:-100] + bytes([data[-100] ^ 4]) + data[-99:]


def unchanged(data):
    """Changes nothing: the job has to be resumed."""
    return data


# (stage, file, what changes). The training "plain" keeps no hidden states. None puts another data set in place.
CHANGES = [
    ("distill", "tiny/config.json", unchanged),
    ("distill", "tiny/model.safetensors", nudged),
    ("distill", "tiny/config.json", edited(rope_theta=500.0)),
    ("distill", "tiny/generation_config.json", edited(eos_token_id=[1, *range(100, 4096)])),
    ("distill", "tiny/tokenizer.json", replaced(b'"model"', b' "model"')),
    ("distill", "tiny/tokenizer_config.json", replaced(b"'<|' + message", b"'<||' + message")),
    ("distill", "prompts.jsonl", replaced(b"3 + 4", b"3 + 5")),
    ("distill", "distill.toml", replaced(b"temperature = 0.0", b"temperature = 0.5")),
    *[(stage, file, change) for stage in ("train", "plain") for file, change in (
        ("tiny/config.json", unchanged),
        ("tiny/model.safetensors", nudged),
        ("tiny/config.json", edited(rope_theta=500.0)),
        ("data/shard-00000.parquet", nudged),
        ("data", None),
        ("runs/medusa-tiny-1/config.toml", replaced(b"heads = 3", b"heads = 2")),
        ("runs/medusa-tiny-1/config.toml", replaced(b"seed = 1", b"seed = 2")),
        ("runs/medusa-tiny-1/config.toml", replaced(b"learning_rate = 0.002", b"learning_rate = 0.003")),
    )],
]


class Changes:
    """Half-done jobs with inputs of their own, which are then changed."""

    def __init__(self, program, references):
        self.program, self.inputs, self.bases = program, references.inputs, {}
        self.references = references

    def base(self, name):
        """A job that stopped half-way, and the digests of the same job where nothing was changed."""
        if name not in self.bases:
            stage = self.stage(name)
            job = self.inputs.job(f"half-done {name}")
            self.set_up(stage, name, job)
            ended = self.program.run(stage.args(job), job)
            if why := objection(ended, {0}):
                raise RuntimeError(f"half-done {name}: {why}")
            expected = digests(job, stage.outputs)
            self.halve(name, job)
            self.bases[name] = stage, job, expected
        return self.bases[name]

    def stage(self, name):
        """The stage, with paths inside of the job."""
        if name != "distill":
            stage = Train("train-medusa", self.inputs, "medusa", 12)
            stage.settings |= {"model": "tiny", "data": "data"}
            return stage
        stage = Distill("distill-greedy", self.inputs, 0.0, 0)
        stage.settings |= {"model": "tiny", "prompts": 'prompts = "prompts.jsonl"'}
        return stage

    def set_up(self, stage, name, job):
        """The inputs of a job in its own folder."""
        shutil.copytree(self.inputs.model, job / "tiny")
        prompts = [json.dumps({"prompt": f"What is {i} + 4? Tell me a story about it."}) + "\n" for i in range(16)]
        (job / "prompts.jsonl").write_text("".join(prompts))
        if name != "distill":
            self.references.expected(stage.needs[0])
            shutil.copytree(self.inputs.reference(stage.needs[0]) / "data", job / "data")
        stage.set_up(job)
        if name == "plain":
            stage.outputs = {pattern: stage.outputs[pattern] for pattern in stage.outputs if "features" not in pattern}
            config = job / "train.toml"
            kept = [line for line in config.read_text().splitlines() if not line.startswith("feature")]
            config.write_text("\n".join(kept) + "\n")

    @staticmethod
    def halve(name, job):
        """Takes a finished job back to its half."""
        if name == "distill":
            for path in job.glob("data/shard*"):
                path.unlink()
            journal = job / "data" / "answers.jsonl"
            lines = journal.read_bytes().splitlines(keepends=True)
            journal.write_bytes(b"".join(lines[:len(lines) // 2]))
            return
        run = last_run(job)
        for folder in (run / "heads", checkpoints(run)[-1]):
            shutil.rmtree(folder)
        (run / "results.json").unlink()

    def run(self, unit, number):
        """One change. A record."""
        name, file, change = CHANGES[number]
        stage, base, expected = self.base(name)
        job = self.inputs.job(unit)
        shutil.copytree(base, job, dirs_exist_ok=True)
        path = job / file
        if change is None:
            shutil.rmtree(path)
            shutil.copytree(self.inputs.reference("distill-greedy") / "data", path)
        else:
            path.write_bytes(change(path.read_bytes()))
        ended = self.program.run(stage.args(job), job)
        why = objection(ended, {0, 2})
        if not why and ended.code == 0:
            why = difference(expected, digests(job, stage.outputs))
            why = why and f"exit 0, and {why}"
        if not why and change is unchanged and ended.code:
            why = f"refused, though nothing changed: {ended.err.strip()}"
        if not why:
            shutil.rmtree(job)
        outcome = "failed" if why else "refused, exit 2" if ended.code else "equal"
        return Record(unit, stage.name, "changed inputs", outcome, f"{name}, {file}: {why}" if why else "")
