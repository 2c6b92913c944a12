#!/usr/bin/env python3
"""Disturbs every stage, and compares what comes of it with undisturbed runs, bit for bit.

    scripts/chaos/run.py --gorgon BIN --work DIR [--seed N] [--minutes M] [--kills K] [--log FILE] [--table FILE]

Kills at random moments, full disks, damaged files, poisoned prompts, edited checkpoints, two writers, misbehaving
servers and hubs. Before that, damage is planted that every check has to notice. The run ends after M minutes; with
--kills when all faults were tried and K kills are in the journal. It can be interrupted: the same command with the
same DIR goes on. With another binary, or other scripts, it begins anew and puts the journal aside.

Exit code 1: something was lost or differs, or too few kills met a process at work. Only the standard library is needed;
a file system of its own for full disks needs `unshare`.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

import report
from controls import Controls
from engine import Engine
from hub import Hub
from inputs import ROOT, Inputs
from journal import Journal, Record
from plan import Plan
from program import Program
from stages import all_stages
from undisturbed import References

# Seconds before the end in which nothing more begins.
MARGIN = 15
# Bytes a second of the hub, and seconds before an answer of the engine, in jobs that are killed.
HUB_PACE, ENGINE_PAUSE = 8e6, 0.25


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gorgon", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--model", type=Path, default=ROOT / "checkpoints" / "tiny")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    return parser.parse_args()


class Chaos:
    """One run over a work folder."""

    def __init__(self, args):
        self.args, self.deadline = args, time.monotonic() + 60 * args.minutes - MARGIN
        args.work = args.work.resolve()
        args.work.mkdir(parents=True, exist_ok=True)
        inputs = Inputs(args.work, args.model, args.data)
        self.servers = Engine(inputs.model, pause=ENGINE_PAUSE), Hub(inputs.model, pace=HUB_PACE)
        self.program = program = Program(args.gorgon.resolve())
        self.references = References(program, inputs, all_stages(inputs, *self.servers))
        self.journal = Journal(args.work / "chaos.jsonl")
        self.plan = Plan(program, self.references, args.seed)
        self.controls = Controls(program, self.references, self.plan.chance("controls"))

    def record(self, records):
        """Keeps records, and prints those that failed."""
        for record in records:
            self.journal.add(record)
            if record.outcome in report.BAD:
                print(f"FAILED {record.unit} [{record.stage}, {record.fault}]: {record.why}", flush=True)

    def attempt(self, unit, run):
        """Runs a unit. One that cannot be run is a failure too."""
        began = time.monotonic()
        try:
            records = run(self.journal.done())
        except (OSError, RuntimeError, ValueError) as error:
            records = [Record(unit, "harness", "could not be run", "failed", f"{type(error).__name__}: {error}")]
        if records:
            records[0].seconds = round(time.monotonic() - began, 2)
        self.record(records)

    def kill(self):
        """One more job is killed: of the stage with the fewest kills."""
        stages = dict.fromkeys(self.references.disturbed, 0)
        jobs = dict(stages)
        for record in self.journal.records:
            if record.fault == "kill":
                stages[record.stage] += len(record.kills)
                jobs[record.stage] += 1
        name = min(stages, key=stages.get)
        unit = f"kill/{name}/{jobs[name]}"
        missing = (self.args.kills or 1 << 30) - sum(stages.values())

        def run(_):
            killer, again = self.references.killer(name)
            self.record([again] if again else [])
            return [killer.run(unit, self.plan.chance(unit), missing)]

        self.attempt(unit, run)

    def enough_kills(self):
        """Whether the journal has as many kills as were asked for."""
        return self.args.kills is not None and len(self.journal.kills()) >= self.args.kills

    def left(self):
        """Faults that were not tried yet. Those of one network unit count as done together."""
        done = self.journal.done()
        groups = {"hub": "hub/", "servers": "server/"}
        return [(unit, run) for unit, run in self.plan.units().items()
                if not (unit in done or unit in groups and any(name.startswith(groups[unit]) for name in done))]

    def run(self):
        """Everything, as long as there is time. Returns how many faults were not tried."""
        for name in ("distill-greedy", "train-medusa"):
            self.references.expected(name)
        self.record(self.controls.all())
        left = self.left()
        while time.monotonic() < self.deadline and not (not left and self.enough_kills()):
            if left:
                self.attempt(*left.pop(0))
            if not self.enough_kills() and time.monotonic() < self.deadline:
                self.kill()
        return len(left)

    def close(self, left):
        """Prints and writes what came of it. Returns the exit code."""
        for server in self.servers:
            server.close()
        records = self.journal.records
        line, good = report.summary(records)
        print(report.printed(records))
        for record in report.failures(records):
            print(f"failed: {record.unit} [{record.stage}, {record.fault}]: {record.why}")
        if left:
            print(f"{left} faults were not tried: the same command with the same --work goes on")
        print(line)
        if self.args.table:
            self.args.table.write_text(report.markdown(records) + f"\n{line}\n", encoding="utf-8")
        if self.args.log:
            report.write_log(self.args.log, self.journal.kills())
        return 0 if good else 1


def main():
    """Runs, also when it is interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    chaos = Chaos(arguments())
    try:
        left = chaos.run()
    except KeyboardInterrupt:
        chaos.program.stop()
        left = len(chaos.left())
        print("interrupted: the same command with the same --work goes on")
    return chaos.close(left)


if __name__ == "__main__":
    sys.exit(main())
