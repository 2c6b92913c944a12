"""Distillations of poisoned prompts: what is wrong is named, and what is right is answered."""

import json
import re
import shutil

import configs
from journal import Record
from program import objection
from records import GOOD

# Files in which no bad record stands between the good ones.
ALONE = ("Parquet", "whole files")

class Poisons:
    """Distils files that nobody should trust."""

    def __init__(self, program, inputs):
        self.program, self.inputs = program, inputs

    def run(self, unit, poison):
        """One file. A record."""
        kind, fault, name, data, counts = poison
        job = self.inputs.job(unit)
        (job / name).write_bytes(data)
        settings = {"model": self.inputs.model, "temperature": 0.0, "new_tokens": 2, "prompts": f'prompts = "{name}"'}
        (job / "distill.toml").write_text(configs.DISTILL.format(**settings))
        ended = self.program.run(["distill", "-c", "distill.toml"], job)
        records = len(GOOD) + (kind not in ALONE and fault != "spaces")
        why = objection(ended, {0, 2}, (name,)) or self.judge(ended, job, name, counts, records)
        if not why:
            shutil.rmtree(job)
        outcome = "failed" if why else "refused, exit 2" if ended.code else "named, the others answered"
        if outcome.startswith("named") and not self.is_named(ended):
            outcome = "taken as it is"
        return Record(unit, kind, "poisoned prompts", outcome, f"{fault}: {why}" if why else "")

    @staticmethod
    def is_named(ended):
        """Whether a line says that something was passed over."""
        return re.search(r"\b[1-9]\d* skipped", ended.err) is not None

    def judge(self, ended, job, name, counts, records):
        """Whether the rows are those of the good records, and what was left out is named."""
        if ended.code != 0:
            return f"{counts} conversations were expected" if counts == {3} and name.endswith("l") else None
        report = json.loads((job / "data" / "report.json").read_text())
        found = report["conversations"] + sum(report["conversations_without_answers"].values())
        if found not in counts:
            return f"{found} conversations came out of it, not {' or '.join(map(str, sorted(counts))) or 'none'}"
        if found < records and not self.is_named(ended):
            return "records were left out without a word"
        return None
