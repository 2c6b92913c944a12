"""The stages: how a job of each is set up, the command a user types next, its results, and how far it is."""

import shutil

import configs
from compare import as_bench, as_bytes, as_comparison, as_document, as_records
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
    # Whether a job leaves traces on the disk that say how far it is. If not, its processor time does.
    traces = True
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

    def __init__(self, name, inputs, temperature, synthetic, new_tokens=24, server=None, model=None):
        super().__init__(name, inputs)
        self.settings = {"temperature": temperature, "new_tokens": new_tokens, "model": model or inputs.model}
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


# Methods that publish a model in place of heads, and those that read no hidden states from the disk.
HEADLESS, FEATURELESS = ("distill-spec", "layerskip", "cllm"), ("distill-spec", "layerskip")


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

    def __init__(self, name, inputs, method, steps, feature_format="int8", source="distill-sampled", model=None):
        super().__init__(name, inputs)
        self.steps, self.needs = steps, (source,)
        if method in HEADLESS:
            self.optional = (*self.optional, "runs/*/heads/*")
        if method in FEATURELESS:
            self.optional = (*self.optional, "features/features-*.safetensors", "features/index.json")
        features = "" if method == "layerskip" else configs.FEATURES.format(format=feature_format)
        method, section = configs.METHODS[method]
        model = model or inputs.model
        self.settings = {
            "method": method, "section": section.format(model=model), "model": model, "features": features,
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
    traces = False

    def __init__(self, name, inputs, measured):
        super().__init__(name, inputs)
        self.outputs = {"heads/*.safetensors": as_bytes, "heads/config.json": as_bytes,
                        "heads/calibration.json": as_document(*measured)}

    def set_up(self, job):
        heads = last_run(self.inputs.reference("train-medusa")) / "heads"
        shutil.copytree(heads, job / "heads")
        write_lines(job / "prompts.jsonl", [{"prompt": f"What is {i} + 4?"} for i in range(8)])

    def args(self, job):
        return ["tree", "calibrate", "--model", str(self.inputs.model), "--heads", "heads", "--rounds", "2",
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


class Once(Stage):
    """A verb that writes the file or folder `out` at its end. One that is there is whole, and nothing is left to do."""

    traces = False

    def __init__(self, name, inputs, needs, command, outputs=None):
        super().__init__(name, inputs)
        self.needs, self.command, self.outputs = needs, command, outputs or {"out/*": as_bytes}

    def args(self, job):
        return None if (job / "out").exists() else self.command()

    def phase(self, job):
        return "out is there" if (job / "out").exists() else "staging" if any(job.iterdir()) else "planning"


class Trajectories(Stage):
    """Jacobi trajectories of the answers in several shards, all with the same answers."""

    outputs = {"data/trajectories-*.parquet": as_bytes}
    needs = ("distill-few",)
    shards = 6

    def __init__(self, name, inputs, model):
        super().__init__(name, inputs)
        self.model = model

    def set_up(self, job):
        (job / "data").mkdir()
        for number in range(self.shards):
            shard = self.inputs.reference("distill-few") / "data" / "shard-00000.parquet"
            shutil.copy(shard, job / "data" / f"shard-{number:05}.parquet")

    def args(self, job):
        return ["dev", "trajectories", "data", "--model", str(self.model), "--block", "8"]

    def phase(self, job):
        files = len(list(job.glob("data/trajectories-*.parquet")))
        return f"{files} files" if files else "planning"


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
        files = ("snapshots/*/*", "blobs/*.incomplete")
        sizes = [path.stat().st_size for name in files for path in job.glob(f"hf/hub/models--*/{name}")]
        return f"{sum(sizes)} bytes" if sizes else "planning"


def once_stages(inputs):
    """Verbs that write one thing: exports, a model in integers, a store, and what there is for a T5."""
    model, t5, reference = str(inputs.model), str(inputs.reference("t5") / "out"), inputs.reference
    ids = ",".join(str(97 + number % 26) for number in range(3000))

    def merged():
        return str(last_run(reference("train-medusa-2")) / "merged")

    return [
        Once("export", inputs, ("train-wide",), lambda: [
            "export", str(last_run(reference("train-wide"))), "--to", "vllm-medusa", "out", "--model", model]),
        Once("export-merged", inputs, ("train-medusa-2",), lambda: [
            "export", str(last_run(reference("train-medusa-2"))), "--to", "merged", "out", "--model", merged()]),
        Once("quantize", inputs, (), lambda: [
            "quantize", model, "out", "--to", "int4", "--hashes", "--prompts", str(inputs.prompts[0]), "--limit", "4"],
            {"out/*.safetensors": as_bytes, "out/config.json": as_bytes, "out/token*": as_bytes,
             "out/quantize.json": as_document("kinds", "bytes_after", "sha256", "agreement")}),
        Once("store", inputs, ("distill-sampled",), lambda: [
            "store", "build", str(inputs.words), str(inputs.prompts[0]), str(reference("distill-sampled") / "data"),
            "out", "--model", model], {"out": as_bytes}),
        Once("t5", inputs, (), lambda: ["dev", "t5", "out", "--steps", "24", "--hidden-size", "32"]),
        Once("t5-logits", inputs, ("t5",), lambda: [
            "dev", "logits", "--model", t5, "--ids", ids, "--decoder-ids", ids, "--out", "out"], {"out": as_bytes}),
        Once("t5-drafted", inputs, ("t5",), lambda: [
            "bench", "--model", t5, "--drafter", f"model:{t5}", "--tree", "chain:2", "--rounds", "12",
            "--prompts", f"{t5}/held-out.jsonl", "--out", "out"], {"out": as_bench}),
    ]


def small_stages(inputs):
    """Trainings for a model of two layers, whose steps take milliseconds."""
    model = inputs.reference("pretrain") / "model"
    few = Distill("distill-few", inputs, 0.0, 100, model=model)
    few.disturbed, few.needs = False, ("pretrain",)
    methods = {
        "eagle3": 48, "mtp": 72, "block": 72, "kangaroo": 72, "ppd": 36, "distill-spec": 72, "layerskip": 72,
        "space-sft": 72, "lora": 72, "medusa-2": 72,
    }
    formats = {"medusa-2": "f32"}
    return [
        few,
        *[Train(f"train-{method}", inputs, method, steps, formats.get(method, "int8"), few.name, model)
          for method, steps in methods.items()],
        Trajectories("trajectories", inputs, model),
        Train("train-cllm", inputs, "cllm", 72, source="trajectories", model=model),
        Compare("compare", inputs, "medusa", 48, source=few.name, model=model),
    ]


def all_stages(inputs, engine, hub):
    """Every stage, those that others read first."""
    wide = Train("train-wide", inputs, "wide", 2)
    wide.disturbed = False
    return [
        Distill("distill-greedy", inputs, 0.0, 300, 48),
        Distill("distill-sampled", inputs, 0.7, 0, 48),
        Distill("distill-served", inputs, 0.7, 0, server=engine),
        Features("features", inputs, "medusa", 12, source="distill-greedy"),
        Train("train-medusa", inputs, "medusa", 36),
        Train("train-eagle", inputs, "eagle", 24),
        Train("train-hydra", inputs, "hydra", 24),
        Pretrain("pretrain", inputs),
        Calibrate("calibrate", inputs, ("accuracies", "positions", "device", "dtype")),
        wide,
        *small_stages(inputs),
        *once_stages(inputs),
        Fetch("fetch", inputs, hub),
    ]
