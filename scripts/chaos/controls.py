"""Negative controls: damage that is planted on purpose, and that every check has to notice."""

import json
import shutil

import compare
from damage import FINISHED, Damages, Target
from inputs import checkpoints, last_run
from journal import Record
from kills import enough_at_work
from program import Ended, Program, objection


def noticed(name, what, seen):
    """A record of a control; `seen` is what the check says of planted damage."""
    why = "" if seen else f"{what} went unnoticed"
    return Record(f"control/{name}", "harness", "planted damage", "noticed" if seen else "failed", why)


def fake(job, name, script):
    """A program that misbehaves in place of gorgon."""
    path = job / name
    path.write_text("#!/bin/sh\n" + script + "\n")
    path.chmod(0o755)
    return Program(path)


class Controls:
    """All negative controls."""

    def __init__(self, program, references, chance):
        self.program, self.references, self.chance = program, references, chance
        self.inputs = references.inputs

    def all(self):
        """The records of all controls."""
        return [*self.positions(), *self.ends(), *self.bytes(), *self.stray(), self.forgetting()]

    def positions(self):
        """Positions of kills that are no evidence."""
        kill = {"alive": True, "fraction": 0.5, "measured": 0.5, "worked": 0.5}
        for name, kills in {
            "all at the begin": [kill | {"measured": 0.0}] * 50, "all too late": [kill | {"alive": False}] * 50,
            "a quarter at the end": [kill] * 75 + [kill | {"measured": 0.99}] * 25, "no kills": [],
            "a quarter before the work": [kill] * 75 + [kill | {"measured": 0.0}] * 25,
            "a quarter asleep": [kill] * 75 + [kill | {"worked": 0.0}] * 25,
        }.items():
            yield noticed(f"kills/{name}", name, not enough_at_work(kills))
        yield noticed("kills/all at work", "an alarm without a cause", enough_at_work([kill] * 50))

    def ends(self):
        """Ends of a process that must not pass."""
        job = self.inputs.job("control/ends")
        for name, script in {
            "a panic": 'echo "error: internal error at x.rs:1: index" >&2; exit 1', "exit code 101": "exit 101",
            "a signal": "kill -SEGV $$", "no message": "exit 2",
            "two messages": 'printf "error: a\\nerror: b\\n" >&2; exit 2',
            "another code": 'echo "error: x" >&2; exit 3', "escapes": 'printf "error: \\033[2J\\n" >&2; exit 2',
        }.items():
            ended = fake(job, "gorgon.sh", script).run([], job)
            yield noticed(f"ends/{name}", name, objection(ended, {0, 1, 2}))
        hung = fake(job, "gorgon.sh", "exec sleep 20").run([], job, timeout=0.3)
        yield noticed("ends/a hang", "a hang", objection(hung, {0, 1, 2}))
        yield noticed("ends/a good end", "an alarm without a cause", not objection(Ended(0, "", "", 0.1), {0}))

    def bytes(self):
        """One flipped byte, a missing file and one too many in the results of every stage that is there."""
        for path in sorted(self.inputs.references.glob("*.json")):
            stage, expected = self.references.stages[path.stem], json.loads(path.read_text())["digests"]
            job = self.inputs.job(f"control/{stage.name}")
            shutil.copytree(self.inputs.reference(stage.name), job, dirs_exist_ok=True)
            yield noticed(f"bytes/{stage.name}/none", "an alarm without a cause",
                          not compare.difference(expected, compare.digests(job, stage.outputs)))
            exact = {pattern for pattern, reading in stage.outputs.items() if reading is compare.as_bytes}
            exact = sorted(compare.digests(job, dict.fromkeys(exact, compare.as_bytes)))
            for file in [job / name for name in self.chance.sample(exact, min(1, len(exact)))]:
                data = file.read_bytes()
                at = self.chance.randrange(len(data))
                file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
                yield noticed(f"bytes/{stage.name}/flipped", f"a flipped byte of {file.name}",
                              compare.difference(expected, compare.digests(job, stage.outputs)))
                file.unlink()
                yield noticed(f"bytes/{stage.name}/gone", f"the loss of {file.name}",
                              compare.difference(expected, compare.digests(job, stage.outputs)))
            shutil.rmtree(job)

    def stray(self):
        """Half a file, and a temporary one, after a run that met a full disk."""
        job = self.inputs.job("control/stray")
        (job / "whole").write_bytes(b"half")
        found = compare.digests(job, {"whole": compare.as_bytes})
        yield noticed("disk/half a file", "half a file", compare.half_written({"whole": "digest of all of it"}, found))
        (job / ".gorgon-x.tmp").touch()
        yield noticed("disk/a temporary file", "a temporary file", compare.leftovers(job))

    def forgetting(self):
        """A checkpoint whose optimizer forgot its moments, with hashes that fit: the results have to differ."""
        target = Target("train-medusa", "runs/*/step-LAST/optimizer.safetensors", [], "equal", without=FINISHED)
        job = Damages(self.program, self.references).copy(target, "control/forgetting")
        stage, run = self.references.stages["train-medusa"], last_run(job)
        shutil.rmtree(checkpoints(run)[-1])
        last = checkpoints(run)[-1]
        (run / "best").unlink()
        path, state = last / "optimizer.safetensors", json.loads((last / "state.json").read_text())
        data = path.read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        path.write_bytes(data[:begin] + bytes(len(data) - begin))
        state["manifest"]["optimizer.safetensors"] = compare.digests(last, {path.name: compare.as_bytes})[path.name]
        # Checkpoints without a checksum of their own are those of earlier versions.
        del state["sha256"]
        (last / "state.json").write_text(json.dumps(state))
        ended = self.program.run(stage.args(job), job)
        differs = compare.difference(self.references.expected(stage.name), compare.digests(job, stage.outputs))
        return noticed("forgetting", f"a forgetful checkpoint (exit {ended.code})", ended.code == 0 and differs)
