"""Two processes that do the same job in the same folder at once."""

import shutil
import time

from compare import difference, digests
from journal import Record
from program import objection

# Seconds between the starts of the two, at most.
APART = 0.5


class Writers:
    """Two writers for one stage."""

    def __init__(self, program, stage, expected):
        self.program, self.stage, self.expected = program, stage, expected

    def run(self, unit, chance):
        """Starts two, and resumes if both were refused. Mixed results are a failure. A record."""
        job = self.stage.inputs.job(unit)
        self.stage.set_up(job)
        env, first = self.stage.env(job), self.stage.args(job)
        one = self.program.start(first, job, env=env)
        time.sleep(chance.choice((0.0, APART * chance.random())))
        second = self.stage.args(job) or first
        two = self.program.start(second, job, env=env)
        ends = [self.program.wait(one), self.program.wait(two)]
        refused = sum(ended.code != 0 for ended in ends)
        why = next((why for ended in ends if (why := objection(ended, {0, 1, 2}))), None)
        why = why or self.compared(job, refused, second != first)
        if not why:
            shutil.rmtree(job)
        outcome = "failed" if why else ("both equal", "one refused, equal", "both refused, then equal")[refused]
        return Record(unit, self.stage.name, "two writers", outcome, why or "")

    def compared(self, job, refused, resumed):
        """What is wrong with the results, or None."""
        if refused == 2 and (args := self.stage.args(job)) is not None:
            if why := objection(self.program.run(args, job, env=self.stage.env(job)), {0}):
                return why
        for folder in self.halves(job, refused, resumed):
            if why := difference(self.expected, digests(folder, self.stage.outputs)):
                return why
        return None

    def halves(self, job, refused, resumed):
        """The job's folder; two of them where each writer made a run folder of its own."""
        runs = sorted(job.glob("runs/*-*"))
        if len(runs) != 2 or refused or resumed:
            yield job
            return
        for keep, other in (runs, runs[::-1]):
            aside = job / "aside"
            other.rename(aside)
            first = keep.with_name(keep.name.rsplit("-", 1)[0] + "-1")
            keep.rename(first)
            config = first / "heads" / "config.json"
            written = config.read_bytes() if config.exists() else b""
            # Heads for a merged model name its folder.
            if written:
                config.write_bytes(written.replace(keep.name.encode(), first.name.encode()))
            yield job
            if written:
                config.write_bytes(written)
            first.rename(keep)
            aside.rename(other)
