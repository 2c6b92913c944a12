"""What all jobs read: the model, prompts, and the results of undisturbed runs."""

import json
import random
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROMPTS = 60
# A text of these words is the input of a store.
WORDS = "an old bird sings of the house where nobody hears it twice in one long year".split()


class Inputs:
    """Folders below the work folder. The model and the prompts are copies, so that a job cannot harm the originals."""

    def __init__(self, work, model, data):
        self.work = work
        self.model = work / "inputs" / "tiny"
        self.references = work / "references"
        self.jobs = work / "jobs"
        for folder in (self.references, self.jobs, self.model.parent):
            folder.mkdir(parents=True, exist_ok=True)
        if not self.model.is_dir():
            shutil.copytree(model, self.model)
        self.prompts = self.copy_prompts(data)
        self.words = self.model.parent / "words.txt"
        chance = random.Random(1)
        self.words.write_text(" ".join(chance.choice(WORDS) for _ in range(200_000)), encoding="utf-8")

    def copy_prompts(self, data):
        """The first conversations of the data files that are there, or of the corpus that comes along."""
        folder, out = self.model.parent, []
        questions, talks = data / "gsm8k_train.jsonl", data / "sharegpt_sample.json"
        if not questions.is_file():
            questions = ROOT / "datasets" / "tiny-chat" / "held_out.jsonl"
        out.append(folder / "questions.jsonl")
        lines = questions.read_text(encoding="utf-8").splitlines()[:PROMPTS]
        out[0].write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        if talks.is_file():
            out.append(folder / "talks.json")
            out[1].write_text(json.dumps(json.loads(talks.read_text(encoding="utf-8"))[:PROMPTS // 3]))
        return out

    def reference(self, stage):
        """The job folder of a stage's undisturbed run."""
        return self.references / stage

    def job(self, unit):
        """An empty folder for a job."""
        folder = self.jobs / unit.replace("/", "-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def last_run(job):
    """The newest run folder of a job, or None."""
    runs = [path for path in job.glob("runs/*-*") if path.is_dir()]
    return max(runs, key=lambda path: int(path.name.rsplit("-", 1)[1]), default=None)


def checkpoints(run):
    """The checkpoints of a run, oldest first."""
    return sorted(path for path in run.glob("step-*") if path.is_dir())


def write_lines(path, records):
    """Writes records as lines of JSON."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
