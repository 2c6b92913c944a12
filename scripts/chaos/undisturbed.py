"""Undisturbed runs: the references that everything is compared with."""

import hashlib
import json
import shutil
from pathlib import Path

from compare import difference, digests
from journal import Record
from kills import Killer
from pace import Pace, watched
from program import objection


class References:
    """Results and durations of undisturbed runs, kept below the work folder."""

    def __init__(self, program, inputs, stages):
        self.program, self.inputs = program, inputs
        self.stages = {stage.name: stage for stage in stages}
        self.disturbed = {stage.name: stage for stage in stages if stage.disturbed}
        self.killers = {}
        self.forget_another_binary()

    def forget_another_binary(self):
        """Puts the journal of another binary, or of other stages, aside and deletes its results."""
        mark, journal = self.inputs.references / "binary", self.inputs.work / "chaos.jsonl"
        files = [Path(self.program.binary), *sorted(Path(__file__).parent.glob("*.py"))]
        binary = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
        known = mark.read_text() if mark.exists() else ""
        if known == binary:
            return
        if journal.exists():
            journal.rename(journal.with_name(f"chaos-{known[:8] or 'unknown'}.jsonl"))
        shutil.rmtree(self.inputs.references)
        self.inputs.references.mkdir()
        mark.write_text(binary)

    def undisturbed(self, stage, job):
        """Runs a stage in an empty folder. Returns its digests and its pace."""
        shutil.rmtree(job, ignore_errors=True)
        job.mkdir(parents=True)
        stage.set_up(job)
        ended, seen = watched(self.program, stage, job)
        if why := objection(ended, {0}):
            raise RuntimeError(f"{stage.name}, undisturbed: {why}")
        found = digests(job, stage.outputs)
        missing = [pattern for pattern in stage.required if not digests(job, {pattern: stage.outputs[pattern]})]
        if missing:
            raise RuntimeError(f"{stage.name}, undisturbed: no {missing[0]}")
        return found, Pace(ended.seconds, seen, ended.processor)

    def expected(self, name):
        """The digests of a stage, from an undisturbed run that is made once and kept."""
        stage, path = self.stages[name], self.inputs.references / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text())["digests"]
        for other in stage.needs:
            self.expected(other)
        found, pace = self.undisturbed(stage, self.inputs.reference(name))
        path.write_text(json.dumps({"seconds": pace.whole, "digests": found}, indent=1) + "\n")
        return found

    def killer(self, name):
        """The killer of a stage. The stage is run undisturbed once more, to learn its duration of today.

        Returns it with a record of that run if it was made now.
        """
        if name in self.killers:
            return self.killers[name], None
        stage, expected = self.stages[name], self.expected(name)
        job = self.inputs.job(f"again/{name}")
        found, pace = self.undisturbed(stage, job)
        self.killers[name] = Killer(self.program, stage, expected, pace)
        why = difference(expected, found) or ""
        if not why:
            shutil.rmtree(job)
        return self.killers[name], Record(f"again/{name}", name, "none", "unequal" if why else "equal", why, pace.whole)
