"""Loads what gorgon exports strictly into PyTorch modules of the published shapes and compares what both compute.

usage: run.py --gorgon target/release/gorgon --model checkpoints/tiny --work /tmp/check_exports [--table OUT.json]

Heads of every method are trained for a few steps on answers of the model, exported to every format and loaded with
`load_state_dict(strict=True)`. On the model's own text both sides compute what drafts start from, the states and the logits of
every guess; they may differ by 1e-4. States of a residual stream without a norm reach some hundreds, where that is less than f32 can tell
over a few layers; of states the difference counts relative to the largest value of the same state, where that is above 1.

Weights are compared in bf16, the default of exports: both sides read the same rounded weights and compute in f32. The exports in
f32, rounded to bf16 and to f16 by PyTorch, have to equal the exports in those formats bit for bit. Every file is also exported
again from its import, and read through `torch.save` and `gorgon export --to safetensors`: these have to agree bit for bit. Needs
scripts/bench/requirements.txt.
"""
import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

try:
    import torch
except ImportError as error:
    sys.exit(f"{error}: give a Python that has scripts/bench/requirements.txt (make check-exports PYTHON=...)")
from safetensors.torch import load_file, save_file
from transformers import LlamaForCausalLM
from transformers.utils.logging import disable_progress_bar

import block
import eagle
import eagle3
import hydra
import medusa
import mtp
import strict
from strict import Text

ROOT = Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
STATES = ("draft_inputs", "draft_states")
YARN = {"type": "yarn", "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}

# Name of the training, its config, what is different from it, and the formats that its heads go to.
TRAININGS = [
    ("medusa", "medusa-tiny", [], ["medusa-v1", "medusa-v2", "tgi", "vllm-medusa"]),
    ("medusa-own", "medusa-tiny", ["medusa.own_lm_heads=true"], ["medusa-v1", "vllm-medusa"]),
    ("medusa-2", "medusa2-tiny", [], ["merged"]),
    ("eagle", "eagle-tiny", [], ["eagle"]),
    ("eagle-bias", "eagle-tiny", ["eagle.fc_bias=true"], ["eagle"]),
    ("eagle3", "eagle3-tiny", [], ["eagle3", "speculators"]),
    ("hydra", "hydra-tiny", [], ["hydra"]),
    ("hydra++", "hydra-plus-tiny", [], ["hydra"]),
    ("mtp", "mtp-tiny", ["mtp.depths=2"], ["mtp"]),
    # transformers gives the last layer's output after the final norm, so no hook is there.
    ("block", "block-tiny", ["block.aux_hidden_state_layers=[1, 3, 5]"], ["dflash", "speculators"]),
    ("block2", "block2-tiny", ["block.aux_hidden_state_layers=[1, 3, 5]"], ["dflash"]),
]
# What others write and this project does not train: changes of an exported layer's config, and the widths of its norms in taps.
VARIANTS = [
    ("eagle3.1", "eagle3", {"fc_norm": True, "norm_output": True}, {f"fc_norm.{tap}.weight": 1 for tap in range(3)}),
    ("eagle3 with norms", "speculators", {"norm_before_fc": True, "norm_before_residual": True}, {"input_norm.weight": 3}),
    ("eagle3 with YaRN", "eagle3", {"rope_scaling": YARN}, {}),
]
# The module that loads a format: made for a folder and a backbone, with the file's tensors and what they may leave out.
MODULES = {
    "medusa-v1": lambda folder, backbone: medusa.heads(folder, backbone, 1),
    "tgi": lambda folder, backbone: medusa.heads(folder, backbone, 1),
    "medusa-v2": lambda folder, backbone: medusa.heads(folder, backbone, 2),
    "vllm-medusa": medusa.vllm,
    "merged": medusa.merged,
    "eagle": eagle.build,
    "eagle3": eagle3.original,
    "dflash": block.z_lab,
    "speculators": lambda folder, backbone: SPECULATORS[strict.config(folder)["speculators_model_type"]](folder, backbone),
    "hydra": hydra.build,
    "mtp": mtp.build,
}
SPECULATORS = {"eagle3": eagle3.speculators, "dflash": block.speculators}


class Check:
    def __init__(self, args):
        self.args, self.work, self.rows, self.failures = args, Path(args.work), [], []
        self.work.mkdir(parents=True, exist_ok=True)

    def gorgon(self, *words, dtype="f32"):
        named = ["--dtype", dtype] if dtype else []
        command = [str(self.args.gorgon), *map(str, words), "--json", "--no-progress", *named]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def fresh(self, name):
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder

    def texts(self):
        """Prompts with the model's own answers, as token ids."""
        asked = (ROOT / "datasets/tiny-chat/held_out.jsonl").read_text().splitlines()[: self.args.prompts]
        texts = []
        for line in asked:
            prompt = json.loads(line)["conversations"][0]["value"]
            answer = self.gorgon("generate", "--model", self.args.model, "--prompt", prompt, "--max-new-tokens", 32)
            texts.append((answer["prompt_ids"] + answer["ids"])[: self.args.tokens])
        return texts

    def train(self):
        given = dict(run.split("=", 1) for run in self.args.trained)
        runs = {name: Path(run).resolve() for name, run in given.items()}
        if unknown := runs.keys() - {name for name, *_ in TRAININGS}:
            sys.exit(f"--trained: no training is called {', '.join(sorted(unknown))}")
        data = self.work / "data"
        if not (data / "report.json").is_file():
            self.fresh("data")
            self.gorgon(
                "distill", "-c", "configs/distill-tiny.toml", f"model={self.args.model!s}", f"out={data!s}",
                f"synthetic.dialogues={self.args.dialogues}", "sampling.max_new_tokens=48",
            )  # fmt: skip
        few = [f"training.steps={self.args.steps}", f"training.eval_every={self.args.steps}", "eval_decoded_prompts=2",
               "eval_conversations=2", "eval_decoded_tokens=8", "held_out=0.1", "cache_features=false"]  # fmt: skip
        for name, config, more, _ in TRAININGS:
            if name in runs or (self.args.only and name != self.args.only):
                continue
            where = [f"model={self.args.model!s}", f"data={data!s}", f"runs={self.fresh('run-' + name)!s}"]
            self.gorgon("train", "-c", f"configs/{config}.toml", *where, *few, *more)
            runs[name] = next((self.work / f"run-{name}").iterdir())
        return runs

    def logits(self, model, heads, ids, name):
        out = self.work / f"{name}.safetensors"
        words = ["--model", model, "--heads", heads, "--drafts", self.args.drafts, "--out", out]
        self.gorgon("logits", "--ids", ",".join(map(str, ids)), *words)
        return out

    def export(self, run, format, name, dtype=None):
        folder = self.fresh(f"export-{name}-{format}-{dtype or 'default'}")
        self.gorgon("export", run, folder, "--to", format, "--model", self.args.model, dtype=dtype)
        return folder

    def rounded(self, run, folder, format, name):
        """Whether the default is bf16, and bf16 and f16 are f32 rounded as PyTorch rounds, bit for bit."""
        stored = {dtype: load_file(self.file(self.export(run, format, name, dtype))) for dtype in ("f32", "f16")}
        stored["bf16"] = load_file(self.file(folder))
        for dtype, kind in [("bf16", torch.bfloat16), ("f16", torch.float16)]:
            for key, tensor in stored["f32"].items():
                # Vocabulary maps are no weights.
                want = tensor.to(kind) if tensor.is_floating_point() else tensor
                found = stored[dtype][key]
                if found.dtype != want.dtype or not torch.equal(found, want):
                    return False
        return True

    def file(self, folder):
        return next(path for path in sorted(folder.iterdir()) if path.suffix == ".safetensors")

    def again(self, run, folder, format, name):
        """Whether the import of an export is exported to the same bits; a merged model is the run's own."""
        second = run / "merged" if format == "merged" else self.export(folder, format, name + "-again")
        first, second = load_file(self.file(folder)), load_file(self.file(second))
        same = lambda key: first[key].dtype == second[key].dtype and torch.equal(first[key], second[key])
        return first.keys() == second.keys() and all(map(same, first))

    def pytorch(self, folder, format, name, model, ids):
        """Whether the heads say the same, bit for bit, after `torch.save` and `gorgon export --to safetensors`, and as a PyTorch file."""
        saved = self.fresh(f"pytorch-{name}-{format}")
        saved.mkdir()
        torch.save(load_file(self.file(folder)), saved / "pytorch_model.bin")
        shutil.copy(folder / "config.json", saved)
        converted = self.fresh(f"converted-{name}-{format}")
        self.gorgon("export", saved, converted, "--to", "safetensors", dtype=None)
        first, *others = [
            self.logits(model, heads, ids, f"{kind}-{name}").read_bytes()
            for kind, heads in [("stored", folder), ("pickled", saved), ("converted", converted)]
        ]
        return all(other == first for other in others)

    def variant(self, source, format, flags, norms):
        """An exported layer as another training would have left it."""
        folder = self.fresh("variant")
        shutil.copytree(source, folder)
        stored, config = load_file(folder / "model.safetensors"), strict.config(folder)
        draws = torch.Generator().manual_seed(1)
        for name, taps in norms.items():
            width = taps * stored["norm.weight"].shape[0]
            stored[name] = (1.0 + 0.2 * torch.randn(width, generator=draws)).bfloat16()
        save_file(stored, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({**config, **flags}))
        return folder

    def one(self, name, run, format, texts):
        folder = self.export(run, format, name)
        model = folder if format == "merged" else self.args.model
        own = format == "merged"
        backbone = None if own else LlamaForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
        module, stored, shared = MODULES[format](folder, backbone)
        strict.load(module, stored, shared)
        backbone = module if own else backbone
        largest = dict.fromkeys(["hidden", "logits", "draft_inputs", "draft_states", "draft_logits"], 0.0)
        relative, scale, rows = dict.fromkeys(STATES, 0.0), 0.0, 0
        for number, ids in enumerate(texts):
            ours = load_file(self.logits(model, folder, ids, f"{name}-{format}"))
            theirs = self.compute(module, backbone, ids)
            for key, value in theirs.items():
                assert value.shape == ours[key].shape, f"{name} {format}: {key} {value.shape} and {ours[key].shape}"
                apart = (value - ours[key]).abs().amax(-1)
                largest[key] = max(largest[key], apart.max().item())
                if key in STATES:
                    size = value.abs().amax(-1).clamp(min=1.0)
                    relative[key] = max(relative[key], (apart / size).max().item())
            scale, rows = max(scale, theirs["draft_logits"].abs().max().item()), rows + len(theirs["draft_inputs"])
        row = {
            "heads": name, "format": format, "file": self.file(folder).name, "tensors": len(stored),
            "texts": len(texts), "rows": rows, "drafts": self.args.drafts, "largest_difference": largest,
            "largest_relative_difference": relative,
            "largest_draft_logit": scale, "least_effect": self.least_effect(module, backbone, texts[0], format),
            "strict_loading_refuses": strict.bites(module, stored, shared),
            "exported_again_identical": self.again(run, folder, format, name),
            "rounded_identical": None if own else self.rounded(run, folder, format, name),
            "pytorch_identical": self.pytorch(folder, format, name, model, texts[0]) if not own else None,
        }  # fmt: skip
        self.judge(row)

    @torch.inference_mode()
    def compute(self, module, backbone, ids):
        output = backbone(torch.tensor([ids]), output_hidden_states=True)
        hidden = [state[0] for state in output.hidden_states]
        trace = module.trace(Text(torch.tensor(ids), hidden, hidden[-1]), self.args.drafts, backbone)
        drafted = {f"draft_{key}": value for key, value in trace._asdict().items()}
        return {"hidden": hidden[-1], "logits": output.logits[0], **drafted}

    @torch.inference_mode()
    def least_effect(self, module, backbone, ids, format):
        """How far the drafts' logits move, at least, when one of the heads' tensors is halved (those that are 0 apart)."""
        short = ids[: self.args.drafts + 6]
        before, least = self.compute(module, backbone, short)["draft_logits"], float("inf")
        for name, tensor in module.named_parameters():
            unread = name.endswith("embed_tokens.weight") or (format == "merged" and not name.startswith("medusa_head"))
            if unread or not tensor.any():
                continue
            kept = tensor.clone()
            tensor.mul_(0.5)
            after = self.compute(module, backbone, short)["draft_logits"]
            tensor.copy_(kept)
            least = min(least, (after - before).abs().max().item())
        return least

    def judge(self, row):
        self.rows.append(row)
        if self.args.table:
            lines = ",\n".join("  " + json.dumps(row) for row in self.rows)
            Path(self.args.table).write_text(f"[\n{lines}\n]\n")
        label = f"{row['heads']} as {row['format']}"
        # Of states relative to their size, of logits as it is.
        worst = max({**row["largest_difference"], **row["largest_relative_difference"]}.values())
        if not worst <= TOLERANCE:
            self.failures.append(f"{label}: {row['largest_difference']}, relative {row['largest_relative_difference']}")
        for key in ("strict_loading_refuses", "exported_again_identical", "rounded_identical", "pytorch_identical"):
            if row[key] is False:
                self.failures.append(f"{label}: {key} is false")
        numbers = "  ".join(f"{key} {value:.1e}" for key, value in row["largest_difference"].items())
        print(f"{label:28} {row['tensors']:3} tensors  {row['rows']:4} rows  {numbers}", flush=True)

    def failed(self, name, format, error):
        self.failures.append(f"{name} as {format}: {error}")
        print(self.failures[-1], flush=True)

    def run(self):
        texts = self.texts()
        runs = self.train()
        for name, _, _, formats in TRAININGS:
            if self.args.only and name != self.args.only:
                continue
            for format in formats:
                try:
                    self.one(name, runs[name], format, texts)
                except (AssertionError, RuntimeError, TypeError) as error:
                    self.failed(name, format, error)
        for name, format, flags, norms in VARIANTS if self.args.only in (None, "eagle3") else []:
            try:
                layer = self.export(runs["eagle3"], format, "plain")
                self.one(name, self.variant(layer, format, flags, norms), format, texts)
            except (AssertionError, RuntimeError, TypeError) as error:
                self.failed(name, format, error)
        if self.failures:
            sys.exit("\n".join(["exports that differ:", *self.failures]))
        print(f"{len(self.rows)} exports agree to {TOLERANCE}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gorgon", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--model", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--work", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--table")
    parser.add_argument("--trained", action="append", default=[], metavar="NAME=RUN", help="a run folder to take instead")
    parser.add_argument("--only", metavar="NAME", help="the heads of one training")
    parser.add_argument("--dialogues", type=int, default=120, help="answers to train on")
    parser.add_argument("--steps", type=int, default=30, help="steps of each training")
    parser.add_argument("--prompts", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=64, help="length of a text, at most")
    parser.add_argument("--drafts", type=int, default=4)
    disable_progress_bar()
    Check(parser.parse_args()).run()


main()
