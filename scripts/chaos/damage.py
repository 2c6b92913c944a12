"""Flipped bits, cut files and the like in every kind of file, and how the verb that reads it ends."""

import json
import shutil
from dataclasses import dataclass

from compare import difference, digests
from inputs import last_run
from journal import Record
from program import objection

# Exit 0, and no line names the damaged file; the output is the same as without the damage, or another one.
UNNOTICED = ("unnoticed, same output", "unnoticed, other output")
KINDS = ("flip", "flip", "flip", "burst", "cut", "cut", "empty", "noise", "longer", "gone")


def damaged(data, kind, chance):
    """Bytes after some damage; `twice` gives a document its first key a second time."""
    at = chance.randrange(max(1, len(data)))
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1:]
    if kind == "burst":
        return data[:at] + chance.randbytes(min(64, len(data) - at)) + data[at + 64:]
    if kind == "twice":
        return b'{"%s": 0, ' % next(iter(json.loads(data))).encode() + data.lstrip()[1:]
    if kind == "noise":
        return chance.randbytes(len(data))
    return {"cut": data[:at], "empty": b"", "longer": data + chance.randbytes(1000)}[kind]


@dataclass
class Target:
    """A file, and the command that reads it.

    `rule` says what is right: "equal" (refused, or the results of an undisturbed run), "same" (refused, or the same
    text on stdout), or "told" (refused, or a line that names the file). Silence about noise fails. Nothing in most
    formats can tell other damage: silence about it has the names UNNOTICED.
    """

    stage: str
    file: str
    args: list
    rule: str
    codes: tuple = (0, 2)
    # Removed from the copy of the undisturbed job before the damage.
    without: tuple = ()
    # Another name in the table.
    name: str = ""
    kinds: tuple = KINDS

    def title(self):
        """The file's kind, for units and the table."""
        return self.name or self.file.rsplit("/", 1)[-1].replace("*", "N")


FINISHED = ("runs/*/heads", "runs/*/adapter", "runs/*/merged", "runs/*/results.json", "runs/*/plots")
TREE = ["tree", "show", "--heads", "heads"]
SEQUOIA = ["tree", "sequoia", "--heads", "heads", "--nodes", "6"]
# Stages whose run folders are damaged.
RUNS = ("train-medusa", "train-eagle", "train-medusa-2", "train-block", "train-layerskip", "train-cllm", "pretrain")


def run_files(stage):
    """Files of a run folder that a resumed training reads. The newest checkpoint is the damaged one."""
    resume = ["train", "--resume", "RUN"] if stage != "pretrain" else ["dev", "pretrain", "--resume", "RUN"]
    names = ["model.safetensors", "optimizer.safetensors", "state.json"]
    files = [f"runs/*/step-LAST/{name}" for name in names] + ["runs/*/best"]
    return [Target(stage, file, resume, "equal", without=FINISHED) for file in files]


def of_jobs(model):
    """Files of jobs that can be resumed, and of their results."""
    distill, train = ["distill", "-c", "distill.toml"], ["train", "-c", "train.toml"]
    resume = ["train", "--resume", "RUN"]
    trajectories = ["dev", "trajectories", "data", "--model", str(model), "--block", "8"]
    return [
        *[Target("distill-greedy", f"data/{name}", distill, "equal")
          for name in ("answers.jsonl", "identity.json", "shards.json", "shard-*.parquet", "report.json")],
        *[Target("train-medusa", f"data/{name}", [*train, "data=data"], "equal", without=("runs",))
          for name in ("shards.json", "shard-*.parquet")],
        *[Target("features", f"features/{name}", ["dev", "features", "-c", "train.toml"], "equal")
          for name in ("features-*.safetensors", "index.json")],
        *[Target("train-medusa", f"features/{name}", train, "equal", without=("runs",), name=f"cached {name}")
          for name in ("features-*.safetensors", "index.json")],
        Target("trajectories", "data/trajectories-*.parquet", trajectories, "equal"),
        Target("train-cllm", "data/trajectories-*.parquet", [*train, "data=data"], "equal", without=("runs",)),
        *[target for stage in RUNS for target in run_files(stage)],
        *[Target("train-medusa", f"runs/*/{name}", resume, "equal", without=FINISHED, name=f"{name}, resumed")
          for name in ("metrics.jsonl", "provenance.json")],
        *[Target("train-medusa-2", f"runs/*/{file}", resume, "equal", without=("runs/*/results.json",),
                 name=f"{file}, resumed".replace("*", "N"))
          for file in ("adapter/*.safetensors", "adapter/adapter_config.json", "merged/model*")],
        *[Target("compare", f"runs/*/{file}", ["compare", "--resume", "RUN"], "equal", without=("runs/*/results.json",),
                 name=f"comparison's {file}".replace("*", "N"))
          for file in ("bench-lookup-*.json", "*/seconds.json", "*/*/results.json", "*/*/heads/*.safetensors")],
        Target("train-medusa", "runs/*/config.toml", resume, "told", without=FINISHED),
        Target("distill-greedy", "distill.toml", [*distill, "--dry-run"], "told"),
        Target("train-medusa", "train.toml", [*train, "--dry-run"], "told", without=("runs",)),
    ]


def of_readers(model):
    """Files that are read for a text, a description or a table."""
    ask = ["--prompt", "What is 3 + 4?", "--max-new-tokens", "16"]
    say = ["generate", "--model", str(model), *ask]
    heads, local = [*say, "--heads", "heads"], ["generate", "--model", "tiny", *ask]
    return [
        *[Target("train-medusa", f"runs/*/{name}", ["runs", "show", "RUN"], "told")
          for name in ("metrics.jsonl", "provenance.json", "results.json")],
        Target("train-medusa-2", "runs/*/merged/model*.safetensors", ["inspect", "RUN/merged"], "told",
               name="merged model"),
        Target("calibrate", "heads/tree.json", TREE, "same"),
        Target("calibrate", "heads/tree.json", heads, "same", name="tree.json, decoding"),
        Target("calibrate", "heads/calibration.json", SEQUOIA, "same"),
        Target("calibrate", "heads/model.safetensors", heads, "same", name="heads"),
        Target("calibrate", "heads/config.json", heads, "same", name="heads' config.json"),
        Target("export", "out/*.safetensors", ["inspect", "out"], "told", name="exported heads"),
        Target("store", "out", ["store", "inspect", "out"], "same", name="store"),
        Target("store", "out", [*say, "--drafter", "suffix:out"], "same", name="store, decoding"),
        *[Target("quantize", f"out/{name}", ["generate", "--model", "out", *ask], "told", name=f"int4 {name}")
          for name in ("config.json", "model.safetensors")],
        *[Target("t5", f"out/{name}", ["generate", "--model", "out", "--prompt", "a1b2c3"], "told", name=f"T5's {name}")
          for name in ("config.json", "model.safetensors")],
        *[Target("distill-greedy", f"tiny/{name}", local, "told", name=f"model's {name}")
          for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                       "model.safetensors")],
    ]


def targets(inputs):
    """Every kind of file that some verb reads."""
    return [*of_jobs(inputs.reference("pretrain") / "model"), *of_readers(inputs.model)]


class Damages:
    """Damage to one file at a time, in a copy of an undisturbed job."""

    def __init__(self, program, references):
        self.program, self.references, self.ends = program, references, {}

    def copy(self, target, unit):
        """A copy of the undisturbed job of a target, with everything that its command reads."""
        inputs = self.references.inputs
        self.references.expected(target.stage)
        job = inputs.job(unit)
        shutil.copytree(inputs.reference(target.stage), job, dirs_exist_ok=True)
        if target.file.startswith("tiny/"):
            shutil.copytree(inputs.model, job / "tiny")
        if target.file.startswith("data/") and not (job / "data").exists():
            source = self.references.stages[target.stage].needs[0]
            shutil.copytree(inputs.reference(source) / "data", job / "data")
        for pattern in target.without:
            for path in list(job.glob(pattern)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return job

    # The bytes of the file after the damage.
    altered = staticmethod(damaged)

    @staticmethod
    def filled(job, target):
        """The damaged file and the arguments, with the names of the run and of its newest checkpoint filled in."""
        run = last_run(job)
        steps = sorted(path.name for path in job.glob("runs/*/step-*"))
        file = target.file.replace("step-LAST", steps[-1] if steps else "")
        found = sorted(job.glob(file))
        if not found:
            raise RuntimeError(f"{target.stage}: no {target.file}")
        names = {f"RUN{below}": f"runs/{run.name}{below}" for below in ("", "/merged")} if run else {}
        return found[0], [names.get(arg, arg) for arg in target.args]

    def undamaged(self, target):
        """How the command ends where nothing is damaged."""
        key = target.stage, target.title()
        if key not in self.ends:
            job = self.copy(target, "undamaged")
            ended = self.program.run(self.filled(job, target)[1], job)
            if why := objection(ended, {0}):
                raise RuntimeError(f"{' '.join(target.args)}: {why}")
            self.ends[key] = ended
        return self.ends[key]

    def run(self, unit, target, kind, chance):
        """One damage. A record. A command that fails without damage would prove nothing."""
        self.undamaged(target)
        job = self.copy(target, unit)
        path, args = self.filled(job, target)
        data = path.read_bytes()
        if kind == "gone":
            path.unlink()
        else:
            path.write_bytes(self.altered(data, kind, chance))
        ended = self.program.run(args, job)
        why = objection(ended, set(target.codes), several=path.suffix == ".toml")
        why = why or self.judge(ended, target, job, path.name, kind)
        if not why:
            shutil.rmtree(job)
        good = f"refused, exit {ended.code}" if ended.code else self.good(ended, target, path.name)
        outcome = "failed" if why else good
        return Record(unit, target.stage, f"damage: {target.title()}", outcome, f"{kind}: {why}" if why else "")

    def good(self, ended, target, name):
        """The word for a run that ended well."""
        if target.rule != "told":
            told = "set aside" in ended.err or "damaged" in ended.err or "again" in ended.err
            return "told, equal" if told and target.rule == "equal" else target.rule
        undamaged = self.undamaged(target)
        usual = (undamaged.out + undamaged.err).splitlines()
        if any(name in line for line in (ended.out + ended.err).splitlines() if line not in usual):
            return "told, exit 0"
        return UNNOTICED[ended.out != undamaged.out]

    def judge(self, ended, target, job, name, kind):
        """Whether a run that was not refused gave another result without a word."""
        if ended.code != 0 or target.rule == "told":
            silent = ended.code == 0 and kind == "noise" and self.good(ended, target, name) in UNNOTICED
            return f"exit 0, and no line names {name}" if silent else None
        if target.rule == "same":
            return None if ended.out == self.undamaged(target).out else "another result, and not a word"
        stage = self.references.stages[target.stage]
        return difference(self.references.expected(stage.name), digests(job, stage.outputs))
