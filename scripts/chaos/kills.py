"""Jobs that are killed at random moments, resumed as a user would, and compared with an undisturbed run."""

import shutil

from compare import difference, digests, leftovers
from journal import Record
from program import objection

# Kills of one job at most.
MOST = 4
# The share of the work, at its begin and at its end, in which a kill does not count as one at work.
EDGE = 0.02
# The share of kills that has to be at work.
ENOUGH = 0.8
# The share of resumed runs that are killed while they still do again what was done before.
RESTORING = 0.2
# The share of kills that are aimed at the moment in which results get their names, and seconds around that moment.
PUBLISHING, AROUND = 0.1, (-0.04, 0.02)
# The share of kills that are aimed anywhere, also before a job leaves its first traces on the disk.
ANYWHERE = 0.05


def at_work(kill):
    """Whether a kill met a process at work: by the position that was measured, not by the one that it was aimed at, and
    by the processor time of the killed process.
    """
    return kill["alive"] and EDGE <= kill["measured"] <= 1 - EDGE and kill["worked"] >= EDGE


def enough_at_work(kills):
    """Whether enough of the kills met a process at work."""
    return bool(kills) and sum(map(at_work, kills)) >= ENOUGH * len(kills)


class Killer:
    """Kills jobs of one stage."""

    def __init__(self, program, stage, expected, pace):
        self.program, self.stage, self.expected, self.pace = program, stage, expected, pace

    def run(self, unit, chance, most):
        """One job: kills it at up to `most` positions and lets it end. A record.

        Positions are uniform over the work from its first traces on, but for those that are aimed at publishing or
        anywhere.
        """
        job = self.stage.inputs.job(unit)
        self.stage.set_up(job)
        targets = sorted(self.position(chance) for _ in range(chance.randint(1, max(1, min(MOST, most)))))
        kills, done, why = [], 0.0, None
        for target, aimed in targets:
            restoring = not aimed and done > 0 and chance.random() < RESTORING
            share = chance.random()
            delay = share * self.pace.again if restoring else self.pace.delay(done, target)
            kill, why = self.kill(job, done, delay)
            if kill is None:
                break
            kill["fraction"] = round(done / self.pace.whole if restoring else target, 4)
            kills.append(kill | {"restoring": restoring, "publishing": aimed})
            if why or not kill["alive"]:
                break
            done = self.pace.reached(kill["phase"])
        why = why or self.finish(job, done)
        for kill in kills:
            kill["equal"] = not why
        # What a killed process left behind stays unless the next one clears it away.
        good = "equal, temporary files left" if leftovers(job) else "equal"
        if not why:
            shutil.rmtree(job)
        outcome = good if not why else "unequal" if "undisturbed" in why else "lost"
        return Record(unit, self.stage.name, "kill", outcome, why or "", kills=kills)

    def position(self, chance):
        """A share of the work, and whether it is aimed at publishing."""
        kind = chance.random()
        if kind >= PUBLISHING:
            if kind < PUBLISHING + ANYWHERE:
                return chance.random(), False
            begun = EDGE + (self.pace.begun() if self.stage.traces else 0.0)
            return chance.uniform(begun, 1 - EDGE), False
        moment = chance.choice(self.pace.publishing()) + chance.uniform(*AROUND)
        return min(max(0.0, moment / self.pace.whole), 1.0), True

    def kill(self, job, done, delay):
        """Runs the job and kills it after a delay. Returns the kill, and what went wrong."""
        args = self.stage.args(job)
        if args is None:
            return None, None
        ended = self.program.kill_after(args, job, delay, env=self.stage.env(job))
        alive = ended.code == -9
        why = None if alive else objection(ended, {0})
        if not alive and not why:
            self.pace.learn(done, ended.seconds)
        phase, worked = self.stage.phase(job), self.pace.worked(ended.processor)
        return {
            "seconds": round(ended.seconds, 3), "whole": round(self.pace.whole, 3), "alive": alive,
            "resumed": done > 0, "phase": phase, "worked": worked,
            "measured": self.pace.share(phase) if self.stage.traces else worked,
        }, why

    def finish(self, job, done):
        """Lets a job end and compares its results. Returns what went wrong, or None."""
        args = self.stage.args(job)
        if args is not None:
            ended = self.program.run(args, job, env=self.stage.env(job))
            if why := objection(ended, {0}):
                return why
            self.pace.learn(done, ended.seconds)
        return difference(self.expected, digests(job, self.stage.outputs))
