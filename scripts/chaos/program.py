"""Starts the program, kills it, and judges how it ended."""

import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass

# Variables of the caller that would change what a run does.
FOREIGN = re.compile(r"^(GORGON_|HF_|HUGGING|RUST_|XDG_CACHE|OMPI_|PMI_|.*_proxy$|.*_PROXY$)")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass
class Ended:
    """How a process ended. The code is negative for a signal, and None if it had to be stopped for hanging."""

    code: int | None
    out: str
    err: str
    seconds: float
    # Processor time in seconds; that of whatever ended meanwhile included.
    processor: float = 0.0

    def error_lines(self):
        """Lines of stderr that state an error."""
        return [line for line in self.err.splitlines() if line.startswith("error:")]


def processor_time():
    """Processor time of all children that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Program:
    """The gorgon binary with an environment of its own."""

    def __init__(self, binary, threads=2):
        self.binary = str(binary)
        self.environment = {key: value for key, value in os.environ.items() if not FOREIGN.match(key)}
        self.running = set()
        self.environment |= {"GORGON_THREADS": str(threads), "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}

    def start(self, args, folder, env=None, prefix=(), before=None):
        """Starts a process in a folder. Its output goes to files, so that it never waits for a reader."""
        streams = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        child = subprocess.Popen(
            [*prefix, self.binary, *args], cwd=folder, env=self.environment | (env or {}), stdin=subprocess.DEVNULL,
            stdout=streams[0], stderr=streams[1], preexec_fn=before, restore_signals=before is None)
        child.streams, child.began, child.spent = streams, time.monotonic(), processor_time()
        self.running.add(child)
        return child

    def stop(self):
        """Kills what still runs, after an interruption."""
        for child in list(self.running):
            child.kill()
            child.wait()

    def wait(self, child, timeout=180.0):
        """Waits for the end of a process. One that hangs is killed."""
        try:
            code = child.wait(timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            code = None
        self.running.discard(child)
        seconds, texts, spent = time.monotonic() - child.began, [], processor_time() - child.spent
        for stream in child.streams:
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
            stream.close()
        return Ended(code, *texts, seconds, spent)

    def run(self, args, folder, timeout=180.0, **more):
        """Runs the program to its end."""
        return self.wait(self.start(args, folder, **more), timeout)

    def kill_after(self, args, folder, seconds, **more):
        """Kills a run after so many seconds. Returns how it ended, with the code -9 if it was still at work."""
        child = self.start(args, folder, **more)
        try:
            child.wait(max(0.0, child.began + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        return self.wait(child)


def objection(ended, codes, words=(), several=False):
    """Why an end is not one of those that are allowed: an exit code, and one line if it is not 0. None if it is.

    Configs are checked as a whole: with `several`, each of their faults may have a line.
    """
    first = (ended.error_lines() or ended.err.strip().splitlines() or [""])[0][:300]
    if ended.code is None:
        return f"it hung for {ended.seconds:.0f} s"
    if ended.code < 0:
        return f"it died of signal {-ended.code}: {first}"
    if "panicked" in ended.err or "internal error" in ended.err or ended.code == 101:
        return f"it panicked: {first}"
    if ended.code not in codes:
        return f"exit code {ended.code}, not {' or '.join(map(str, sorted(codes)))}: {first}"
    if ended.code != 0 and not (ended.error_lines() if several else len(ended.error_lines()) == 1):
        return f"{len(ended.error_lines())} lines state an error: {first}"
    if CONTROL.search(ended.err.replace("\r", "")):
        return "stderr holds control characters"
    if ended.code != 0 and words and not any(word in ended.err for word in words):
        return f"none of {', '.join(words)} is named: {first}"
    return None
