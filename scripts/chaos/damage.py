"""Flipped bits, cut files and the like in every kind of file, and how the verb that reads it ends."""

import json
import shutil
from dataclasses import dataclass

from compare import difference, digests
from inputs import last_run
from journal import Record
from program import objection

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
    text on stdout), or "told" (refused or not, since nothing in the format can tell).
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


def run_files(stage):
    """Files of a run folder that a resumed training reads. The newest checkpoint is the damaged one."""
    resume = ["train", "--resume", "RUN"] if stage != "pretrain" else ["dev", "pretrain", "--resume", "RUN"]
    names = ["model.safetensors", "optimizer.safetensors", "state.json"]
    files = [f"runs/*/step-LAST/{name}" for name in names] + ["runs/*/best"]
    return [Target(stage, file, resume, "equal", without=FINISHED) for file in files]


def targets(model):
    """Every kind of file that some verb reads."""
    distill, train = ["distill", "-c", "distill.toml"], ["train", "-c", "train.toml"]
    ask = ["--prompt", "What is 3 + 4?", "--max-new-tokens", "16"]
    say = ["generate", "--model", str(model), *ask, "--heads", "heads"]
    local = ["generate", "--model", "tiny", *ask]
    found = [
        *[Target("distill-greedy", f"data/{name}", distill, "equal")
          for name in ("answers.jsonl", "identity.json", "shards.json", "shard-*.parquet", "report.json")],
        *[Target("train-medusa", f"data/{name}", [*train, "data=data"], "equal", without=("runs",))
          for name in ("shards.json", "shard-*.parquet")],
        *[Target("features", f"features/{name}", ["dev", "features", "-c", "train.toml"], "equal")
          for name in ("features-*.safetensors", "index.json")],
        *[Target("train-medusa", f"features/{name}", train, "equal", without=("runs",), name=f"cached {name}")
          for name in ("features-*.safetensors", "index.json")],
        *[target for stage in ("train-medusa", "train-eagle", "train-medusa-2", "pretrain")
          for target in run_files(stage)],
        Target("train-medusa", "runs/*/config.toml", ["train", "--resume", "RUN"], "told", without=FINISHED),
        *[Target("train-medusa", f"runs/*/{name}", ["train", "--resume", "RUN"], "equal", without=FINISHED,
                 name=f"{name}, resumed") for name in ("metrics.jsonl", "provenance.json")],
        Target("train-medusa", "runs/*/metrics.jsonl", ["runs", "show", "RUN"], "told"),
        Target("train-medusa", "runs/*/provenance.json", ["runs", "show", "RUN"], "told"),
        Target("train-medusa", "runs/*/results.json", ["runs", "show", "RUN"], "told"),
        *[Target("train-medusa-2", f"runs/*/{file}", ["train", "--resume", "RUN"], "equal",
                 without=("runs/*/results.json",), name=f"{file.split('/')[0]}, resumed")
          for file in ("adapter/*.safetensors", "merged/model*")],
        Target("train-medusa-2", "runs/*/adapter/adapter_config.json", ["inspect", "RUN/adapter"], "told"),
        Target("train-medusa-2", "runs/*/merged/model*.safetensors", ["inspect", "RUN/merged"], "told",
               name="merged model"),
        *[Target("compare", f"runs/*/{file}", ["compare", "--resume", "RUN"], "equal", without=("runs/*/results.json",),
                 name=f"comparison's {file}".replace("*", "N"))
          for file in ("bench-lookup-*.json", "*/seconds.json", "*/*/results.json", "*/*/heads/*.safetensors")],
        Target("calibrate", "heads/tree.json", TREE, "same"),
        Target("calibrate", "heads/tree.json", say, "same", name="tree.json, decoding"),
        Target("calibrate", "heads/calibration.json", SEQUOIA, "same"),
        Target("calibrate", "heads/model.safetensors", say, "same", name="heads"),
        Target("calibrate", "heads/config.json", say, "same", name="heads' config.json"),
        Target("export", "out/*.safetensors", ["inspect", "out"], "told", name="exported heads"),
        *[Target("distill-greedy", f"tiny/{name}", local, "told", name=f"model's {name}")
          for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
                       "model.safetensors")],
        Target("distill-greedy", "distill.toml", [*distill, "--dry-run"], "told"),
        Target("train-medusa", "train.toml", [*train, "--dry-run"], "told", without=("runs",)),
    ]
    return found


class Damages:
    """Damage to one file at a time, in a copy of an undisturbed job."""

    def __init__(self, program, references):
        self.program, self.references, self.texts = program, references, {}

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
        names = {f"RUN{below}": f"runs/{run.name}{below}" for below in ("", "/adapter", "/merged")} if run else {}
        return found[0], [names.get(arg, arg) for arg in target.args]

    def text(self, target):
        """What the command prints where nothing is damaged."""
        key = target.stage, target.title()
        if key not in self.texts:
            job = self.copy(target, "undamaged")
            ended = self.program.run(self.filled(job, target)[1], job)
            if why := objection(ended, {0}):
                raise RuntimeError(f"{' '.join(target.args)}: {why}")
            self.texts[key] = ended.out
        return self.texts[key]

    def run(self, unit, target, kind, chance):
        """One damage. A record."""
        job = self.copy(target, unit)
        path, args = self.filled(job, target)
        data = path.read_bytes()
        if kind == "gone":
            path.unlink()
        else:
            path.write_bytes(self.altered(data, kind, chance))
        ended = self.program.run(args, job)
        why = objection(ended, set(target.codes), several=path.suffix == ".toml") or self.judge(ended, target, job)
        if not why:
            shutil.rmtree(job)
        outcome = "failed" if why else {0: self.good(ended, target)}.get(ended.code, f"refused, exit {ended.code}")
        return Record(unit, target.stage, f"damage: {target.title()}", outcome, f"{kind}: {why}" if why else "")

    @staticmethod
    def good(ended, target):
        """The word for a run that ended well."""
        told = "set aside" in ended.err or "damaged" in ended.err or "again" in ended.err
        return "told, equal" if told and target.rule == "equal" else {"told": "taken"}.get(target.rule, target.rule)

    def judge(self, ended, target, job):
        """Whether a run that was not refused gave another result without a word."""
        if ended.code != 0 or target.rule == "told":
            return None
        if target.rule == "same":
            return None if ended.out == self.text(target) else "another result, and not a word"
        stage = self.references.stages[target.stage]
        return difference(self.references.expected(stage.name), digests(job, stage.outputs))
