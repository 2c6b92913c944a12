"""The stages: how a job of each is set up, the command a user types next, its results, and how far it is."""

import shutil

import configs
from compare import as_bytes, as_comparison, as_document, as_records
from inputs import checkpoints, last_run, write_lines


class Stage:
    """One kind of job. Commands run in the job's folder, so that no result holds the folder's name."""

    # Patterns of result files, each with the reading that decides which part of a file counts.
    outputs = {}
    # Patterns that not every job of the stage fills.
    optional = ()
    # Results that grow while a job runs: they may be there in part.
    growing = ()
    # Stages whose undisturbed results are read.
    needs = ()
    # Whether jobs of it are disturbed; otherwise it only makes what others read.
    disturbed = True
    # The process that it talks to, if any.
    server = None

    def __init__(self, name, inputs):
        self.name, self.inputs = name, inputs

    def set_up(self, job):
        """Writes the configs of a job."""

    def args(self, job):
        """The command that begins or resumes the job. None if the results show that nothing is left to do."""
        raise NotImplementedError

    def env(self, job):
        """Environment variables of the command."""
        return {}

    def phase(self, job):
        """How far a job is, by what it has left on the disk."""
        raise NotImplementedError

    @property
    def required(self):
        """Patterns that an undisturbed run has to fill."""
        return [pattern for pattern in self.outputs if pattern not in self.optional]

    def settled(self):
        """Results that are either absent or whole."""
        return {pattern: reading for pattern, reading in self.outputs.items() if pattern not in self.growing}


class Distill(Stage):
    """A model answers prompts."""

    outputs = {"data/shard-*.parquet": as_bytes, "data/shards.json": as_bytes, "data/identity.json": as_bytes}

    def __init__(self, name, inputs, temperature, synthetic, new_tokens=24, server=None):
        super().__init__(name, inputs)
        self.settings = {"temperature": temperature, "new_tokens": new_tokens, "model": inputs.model}
        named = f"prompts = {[str(path) for path in inputs.prompts]}"
        self.settings["prompts"] = configs.SYNTHETIC.format(dialogues=synthetic) if synthetic else named
        self.server = server

    def set_up(self, job):
        (job / "distill.toml").write_text(configs.DISTILL.format(**self.settings))

    def args(self, job):
        args = ["distill", "-c", "distill.toml"]
        if self.server:
            args += [f'servers=["{self.server.url}/v1"]', "serving.pause_ms=5", "serving.timeout_seconds=3.0"]
        return args

    def phase(self, job):
        data = job / "data"
        for name in ("report.json", "shards.json", "shard-00000.parquet"):
            if (data / name).exists():
                return f"{name} is there"
        if (data / "answers.jsonl").exists():
            return f"{(data / 'answers.jsonl').read_bytes().count(10)} lines of answers"
        return "identity" if (data / "identity.json").exists() else "planning"


class Train(Stage):
    """Draft heads, or heads and an adapter, are fitted."""

    outputs = {
        "features/features-*.safetensors": as_bytes,
        "features/index.json": as_bytes,
        "runs/*/step-*/*.safetensors": as_bytes,
        "runs/*/step-*/config.json": as_bytes,
        "runs/*/heads/*": as_bytes,
        "runs/*/adapter/*": as_bytes,
        "runs/*/merged/*": as_bytes,
        "runs/*/model/*": as_bytes,
        "runs/*/best": as_bytes,
        "runs/*/metrics.jsonl": as_records,
    }
    growing = ("runs/*/metrics.jsonl", "runs/*/best", "features/index.json")
    optional = ("runs/*/adapter/*", "runs/*/merged/*", "runs/*/model/*", "runs/*/step-*/config.json")

    def __init__(self, name, inputs, method, steps, feature_format="int8", source="distill-sampled"):
        super().__init__(name, inputs)
        self.steps, self.needs = steps, (source,)
        if method == "distill-spec":
            self.optional = (*self.optional, "runs/*/heads/*", "features/features-*.safetensors", "features/index.json")
        method, section = configs.METHODS[method]
        section = section.format(model=inputs.model)
        self.settings = {
            "method": method, "section": section, "model": inputs.model, "format": feature_format,
            "data": inputs.reference(source) / "data",
            "steps": steps, "eval_every": max(1, steps // 3), "save_every": max(1, steps // 6)}

    def set_up(self, job):
        (job / "train.toml").write_text(configs.TRAIN.format(**self.settings))

    def args(self, job):
        run = last_run(job)
        if run is None:
            return ["train", "-c", "train.toml"]
        resume = ["train", "--resume", f"runs/{run.name}"]
        return resume if (run / "config.toml").exists() else [*resume, "-c", "train.toml"]

    def phase(self, job):
        run = last_run(job)
        if run is None:
            return "hidden states" if (job / "features").exists() else "planning"
        for name in ("results.json", "merged", "adapter", "model", "heads"):
            if (run / name).exists():
                return f"{name} is there"
        steps = checkpoints(run)
        return f"{steps[-1].name} of {self.steps}" if steps else "before the first checkpoint"


class Features(Train):
    """Hidden states are computed ahead."""

    outputs = {"features/features-*.safetensors": as_bytes, "features/index.json": as_bytes}
    growing = ("features/index.json",)

    def args(self, job):
        return ["dev", "features", "-c", "train.toml"]

    def phase(self, job):
        if (job / "features" / "index.json").exists():
            return "index is there"
        return "hidden states" if (job / "features").exists() else "planning"


class Pretrain(Stage):
    """A model is fitted from scratch."""

    outputs = {
        "model/*": as_bytes, "runs/*/step-*/*.safetensors": as_bytes, "runs/*/metrics.jsonl": as_records,
    }
    growing = ("runs/*/metrics.jsonl",)

    def set_up(self, job):
        (job / "pretrain.toml").write_text(configs.PRETRAIN)

    def args(self, job):
        run = last_run(job)
        if run is None:
            return ["dev", "pretrain", "-c", "pretrain.toml"]
        resume = ["dev", "pretrain", "--resume", f"runs/{run.name}"]
        return resume if (run / "config.toml").exists() else [*resume, "-c", "pretrain.toml"]

    def phase(self, job):
        run = last_run(job)
        if (job / "model" / "model.safetensors").exists():
            return "model is there"
        steps = checkpoints(run) if run else []
        return f"{steps[-1].name} of 48" if steps else "before the first checkpoint" if run else "planning"


class Calibrate(Stage):
    """Acceptance and step times are measured. The tree depends on the clock; acceptance and heads do not."""

    needs = ("train-medusa",)

    def __init__(self, name, inputs, measured):
        super().__init__(name, inputs)
        self.outputs = {"heads/*.safetensors": as_bytes, "heads/config.json": as_bytes,
                        "heads/calibration.json": as_document(*measured)}

    def set_up(self, job):
        heads = last_run(self.inputs.reference("train-medusa")) / "heads"
        shutil.copytree(heads, job / "heads")
        write_lines(job / "prompts.jsonl", [{"prompt": f"What is {i} + 4?"} for i in range(24)])

    def args(self, job):
        return ["tree", "calibrate", "--model", str(self.inputs.model), "--heads", "heads", "--rounds", "3",
                "--prompts", "prompts.jsonl", "--max-new-tokens", "24"]

    def phase(self, job):
        there = [name for name in ("calibration.json", "tree.json") if (job / "heads" / name).exists()]
        return f"{there[-1]} is there" if there else "measuring"


class Compare(Train):
    """Methods are fitted to the same answers and measured side by side."""

    outputs = {
        "runs/*/results.json": as_comparison,
        "runs/*/*/*/step-*/*.safetensors": as_bytes,
        "runs/*/*/*/heads/*.safetensors": as_bytes,
        "runs/*/*/*/metrics.jsonl": as_records,
    }
    growing = ("runs/*/*/*/metrics.jsonl",)
    optional = ()

    def set_up(self, job):
        """Writes the comparison, its training and its prompts."""
        super().set_up(job)
        (job / "compare.toml").write_text(configs.COMPARE.format(**self.settings))
        write_lines(job / "prompts.jsonl", [{"prompt": f"What is {i} + 4?"} for i in range(8)])

    def args(self, job):
        run = last_run(job)
        if run is None:
            return ["compare", "-c", "compare.toml"]
        resume = ["compare", "--resume", f"runs/{run.name}"]
        return resume if (run / "config.toml").exists() else [*resume, "-c", "compare.toml"]

    def phase(self, job):
        run = last_run(job)
        if run is None:
            return "planning"
        if (run / "results.json").exists():
            return "results.json is there"
        measured = len(list(run.glob("bench-*.json")))
        steps = max((int(path.name[5:]) for path in run.glob("*/*/step-??????")), default=0)
        return f"{measured + steps} steps and measurements" if measured else "before the first result"


class Export(Stage):
    """Heads are written in another engine's format. A folder that is there is whole, and there is nothing to do."""

    outputs = {"out/*": as_bytes}

    def __init__(self, name, inputs, source, to):
        super().__init__(name, inputs)
        self.source, self.to, self.needs = source, to, (source,)

    def args(self, job):
        run = last_run(self.inputs.reference(self.source))
        model = run / "merged" if self.to == "merged" else self.inputs.model
        there = (job / "out").exists()
        return None if there else ["export", str(run), "--to", self.to, "out", "--model", str(model)]

    def phase(self, job):
        return "out is there" if (job / "out").exists() else "staging" if any(job.iterdir()) else "planning"


class Fetch(Stage):
    """A model is downloaded from a hub on the loopback interface."""

    outputs = {"hf/hub/models--*/snapshots/*/*": as_bytes, "hf/hub/models--*/refs/*": as_bytes}

    def __init__(self, name, inputs, server):
        super().__init__(name, inputs)
        self.server = server

    def args(self, job):
        return ["fetch", "chaos/tiny"]

    def env(self, job):
        return {"HF_HUB_OFFLINE": "0", "HF_HOME": "hf", "HF_ENDPOINT": self.server.url}

    def phase(self, job):
        files = [path.name for path in job.glob("hf/hub/models--*/snapshots/*/*")]
        partial = [path.stat().st_size for path in job.glob("hf/hub/models--*/blobs/*.incomplete")]
        return f"{len(files)} files, {sum(partial)} bytes of the next" if files or partial else "planning"


def all_stages(inputs, engine, hub):
    """Every stage, those that others read first."""
    wide = Train("train-wide", inputs, "wide", 2)
    wide.disturbed = False
    return [
        Distill("distill-greedy", inputs, 0.0, 600, 48),
        Distill("distill-sampled", inputs, 0.7, 0, 48),
        Distill("distill-served", inputs, 0.7, 0, server=engine),
        Features("features", inputs, "medusa", 12, source="distill-greedy"),
        Train("train-medusa", inputs, "medusa", 36),
        Train("train-eagle", inputs, "eagle", 36),
        Train("train-hydra", inputs, "hydra", 36),
        Train("train-eagle3", inputs, "eagle3", 18),
        Train("train-mtp", inputs, "mtp", 18),
        Train("train-kangaroo", inputs, "kangaroo", 18),
        Train("train-ppd", inputs, "ppd", 18),
        Train("train-distill-spec", inputs, "distill-spec", 12),
        Train("train-lora", inputs, "lora", 12),
        Train("train-medusa-2", inputs, "medusa2", 12, "f32"),
        Pretrain("pretrain", inputs),
        Calibrate("calibrate", inputs, ("accuracies", "positions", "device", "dtype")),
        Compare("compare", inputs, "medusa", 8),
        wide,
        Export("export", inputs, "train-wide", "vllm-medusa"),
        Export("export-merged", inputs, "train-medusa-2", "merged"),
        Fetch("fetch", inputs, hub),
    ]
