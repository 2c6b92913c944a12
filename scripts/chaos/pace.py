"""When a stage reaches which phase, and when a run therefore has to be killed."""

import re
import time

# Seconds between two looks at a job's folder.
EVERY = 0.01


def watched(program, stage, job):
    """Runs a job to its end. Returns how it ended, and the seconds at which each phase was first seen."""
    child, seen = program.start(stage.args(job), job, env=stage.env(job)), {}
    while child.poll() is None and time.monotonic() - child.began < 180:
        seen.setdefault(stage.phase(job), time.monotonic() - child.began)
        time.sleep(EVERY)
    return program.wait(child, timeout=1), seen


def parts(phase):
    """A phase without its first number, and that number."""
    match = re.search(r"\d+", phase)
    return (phase[:match.start()] + phase[match.end():], int(match[0])) if match else (phase, 0)


class Pace:
    """Durations of one stage: `whole` undisturbed, and `again` for what every resumed run does anew.

    `processor` is the processor time of an undisturbed run.
    """

    def __init__(self, whole, seen, processor):
        self.whole, self.seen, self.processor = whole, seen, processor
        later = [seconds for phase, seconds in seen.items() if phase != "planning"]
        self.again = min(later, default=0.0)

    def reached(self, phase):
        """Seconds of undisturbed work that a job in this phase need not do again."""
        if phase == "planning":
            return 0.0
        shape, number = parts(phase)
        like = [(parts(other), seconds) for other, seconds in self.seen.items()]
        times = [seconds for (other, reached), seconds in like if other == shape and reached <= number]
        return min(max(times, default=0.0), self.whole)

    def begun(self):
        """The share of the work at which a job leaves its first traces on the disk."""
        later = [seconds for phase, seconds in self.seen.items() if phase != "planning"]
        return min(later, default=0.0) / self.whole

    def worked(self, seconds):
        """So many seconds of processor time as a share of what an undisturbed run takes."""
        return round(seconds / self.processor, 4) if self.processor else 0.0

    def publishing(self):
        """Seconds at which finished results get their names; the last change of phase where none is seen."""
        times = [seconds for phase, seconds in self.seen.items() if phase.endswith("is there")]
        return times or [max(self.seen.values(), default=self.whole)]

    def share(self, phase):
        """The share of the undisturbed work that a job in this phase has behind it, as measured by what it left."""
        return round(self.reached(phase) / self.whole, 4) if self.whole else 0.0

    def delay(self, done, target):
        """Seconds from the start of a run to a position of the work, where so many seconds of it are done."""
        return target * self.whole if done == 0 else self.again + max(0.0, target * self.whole - done)

    def learn(self, done, seconds):
        """Takes in how long a run to the end has taken, where so many seconds of the work were done before."""
        if done == 0:
            change = seconds / self.whole
            self.whole += 0.5 * (seconds - self.whole)
            self.seen = {phase: at * (1 + 0.5 * (change - 1)) for phase, at in self.seen.items()}
        else:
            again = min(max(0.0, seconds - (self.whole - done)), self.whole)
            self.again += 0.3 * (again - self.again)
