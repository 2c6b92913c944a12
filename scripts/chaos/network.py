"""Misbehaving servers and a misbehaving hub: the job ends in one line, or goes on elsewhere, with the same results."""

import shutil
from concurrent.futures import ThreadPoolExecutor

from compare import difference, digests
from engine import ENGINE_MOODS, Engine
from hub import HUB_MOODS, Hub
from journal import Record
from program import objection
from stages import Distill, Fetch
from wire import MOODS

# Servers that hang are waited for side by side.
AT_ONCE = 8
# Seconds after which a download that comes a byte at a time is killed.
PATIENCE = 10
# Answers that are not those of the engine: their text is taken, and marked as tokenised again.
RETOKENISED = ("wrong ids", "huge ids")


def hub_cases():
    """(mood, what it applies to, how many requests it lasts; None for ever)."""
    for mood in MOODS + HUB_MOODS:
        touched = "/api/" if mood == "bad names" else "model.safetensors"
        yield mood, touched, None
        if mood not in ("bad names", "hang", "drip"):
            yield mood, touched, 1
    for mood in ("500", "loop", "noise", "endless", "empty", "half"):
        yield mood, "/api/", None


class Network:
    """Cases for servers and hub."""

    def __init__(self, program, references):
        self.program, self.references, self.inputs = program, references, references.inputs

    def hub_case(self, unit, mood, touched, lasting):
        """A download from a misbehaving hub, then from one that mended its ways. A record."""
        hub = Hub(self.inputs.model, touched=touched)
        hub.behave([mood] * (lasting or 1), "honest" if lasting else mood)
        stage, job = Fetch("fetch", self.inputs, hub), self.inputs.job(unit)
        if mood == "drip":
            # Bytes keep coming, so the program waits. A user would not.
            first = self.program.kill_after(stage.args(job), job, PATIENCE, env=stage.env(job))
            why = None if first.code == -9 else objection(first, {1})
        else:
            first = self.program.run(stage.args(job), job, env=stage.env(job))
            why = objection(first, {0, 1} if mood != "bad names" else {0, 1, 2})
        expected = self.references.expected("fetch")
        if not why and first.code == 0:
            why = difference(expected, digests(job, stage.outputs))
        outside = [path for path in job.rglob("outside.json")]
        why = why or (f"{outside[0]} was written" if outside else None)
        hub.behave(["honest"])
        second = self.program.run(stage.args(job), job, env=stage.env(job))
        why = why or objection(second, {0}) or difference(expected, digests(job, stage.outputs))
        hub.close()
        if not why:
            shutil.rmtree(job)
        outcome = "failed" if why else "equal" if first.code == 0 else "told, then equal"
        times = "for ever" if lasting is None else f"{lasting} times"
        return Record(unit, "fetch", f"hub: {mood}", outcome, f"{touched} {times}: {why}" if why else "")

    def served(self, unit, mood, beside):
        """A distillation by a misbehaving server, alone or beside one that answers. A record."""
        honest, other = Engine(self.inputs.model), Engine(self.inputs.model, [mood, "honest"] if beside else [mood])
        stage, job = Distill("distill-served", self.inputs, 0.7, 0, server=other), self.inputs.job(unit)
        stage.set_up(job)
        keys = ["serving.pause_ms=5", "serving.timeout_seconds=1.5", f"serving.attempts={200 if beside else 3}"]
        urls = f'servers=["{other.url}/v1", "{honest.url}/v1"]' if beside else f'servers=["{other.url}/v1"]'
        first = self.program.run(["distill", "-c", "distill.toml", urls, *keys], job)
        why = objection(first, {0} if beside or mood in RETOKENISED else {1}, ("127.0.0.1",))
        second = self.program.run(["distill", "-c", "distill.toml", f'servers=["{honest.url}/v1"]', *keys], job)
        why = why or objection(second, {0})
        if mood not in RETOKENISED:
            why = why or difference(self.references.expected("distill-served"), digests(job, stage.outputs))
        for server in (honest, other):
            server.close()
        if not why:
            shutil.rmtree(job)
        good = "told, then equal" if first.code else "marked" if mood in RETOKENISED else "equal"
        where = "beside an honest one" if beside else "alone"
        fault, outcome = f"server: {mood}", "failed" if why else good
        return Record(unit, "distill-served", fault, outcome, f"{where}: {why}" if why else "")

    def hub_all(self, done):
        """All cases of the hub that are not done yet, several at once. Their records."""
        cases = [(f"hub/{number}", *case) for number, case in enumerate(hub_cases())]
        self.references.expected("fetch")
        return self.side_by_side(AT_ONCE, self.hub_case, [case for case in cases if case[0] not in done])

    def servers_all(self, done):
        """All cases of servers that are not done yet, several at once. Their records."""
        cases = [(f"server/{mood}/{beside}", mood, beside) for mood in MOODS + ENGINE_MOODS for beside in (False, True)]
        self.references.expected("distill-served")
        return self.side_by_side(AT_ONCE // 2, self.served, [case for case in cases if case[0] not in done])

    def side_by_side(self, threads, run, cases):
        """Runs cases, several at once. Returns their records; an interruption ends all that run and begins no other."""
        with ThreadPoolExecutor(threads) as pool:
            try:
                return list(pool.map(lambda case: run(*case), cases))
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                self.program.stop()
                raise
