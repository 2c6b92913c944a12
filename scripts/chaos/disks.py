"""Full disks: a file system of a few kilobytes, or a limit on the size of a file."""

import resource
import shutil
import signal
import subprocess
from pathlib import Path

from compare import difference, digests, half_written, leftovers
from journal import Record
from program import objection

FULL = ("No space left", "File too large", "StorageFull", "disk is full", "disk full")
ENOUGH = 512 << 20


def limited(size):
    """What a child does before it begins: no file grows beyond so many bytes, and writing beyond is an error."""

    def before():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return before


class SmallDisk:
    """A file system in memory over a folder, in a mount namespace of its own. It ends with the block."""

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        script = 'mount -t tmpfs -o size=512m tmpfs "$1" && echo ready && exec cat'
        self.holder = subprocess.Popen(["unshare", "-rm", "bash", "-c", script, "disk", str(self.folder)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.ready = self.holder.stdout.readline() == b"ready\n"
        self.path = Path(f"/proc/{self.holder.pid}/root{self.folder}")
        return self

    def __exit__(self, *_):
        self.holder.stdin.close()
        self.holder.wait()

    def prefix(self):
        """What runs a command in the folder as the namespace shows it."""
        enter = ["nsenter", "--preserve-credentials", "-U", "-m", "-t", str(self.holder.pid)]
        return [*enter, "bash", "-c", 'cd "$0" && exec "$@"', str(self.folder)]

    def resize(self, size):
        """Gives the file system so many bytes."""
        command = ["mount", "-o", f"remount,size={max(4096, size)}", str(self.folder)]
        subprocess.run([*self.prefix(), *command], check=True, capture_output=True)


def used(folder):
    """Bytes of all files below a folder, in whole pages as a file system in memory keeps them."""
    return sum(-(-path.stat().st_size // 4096) * 4096 for path in folder.rglob("*") if path.is_file())


def contents(folder):
    """Files with content: empty ones, such as locks, and folders are no results."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)


def largest(folder):
    """Bytes of the largest file below a folder."""
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Disks:
    """Full disks for one stage."""

    def __init__(self, program, stage, expected):
        self.program, self.stage, self.expected = program, stage, expected

    def judge(self, ended, folder):
        """What is wrong after a run on a disk that may be too small. None if nothing is."""
        why = objection(ended, {0, 1}, FULL)
        why = why or half_written(self.expected, digests(folder, self.stage.settled()))
        left = leftovers(folder) if not why and ended.code == 1 else []
        return why or (f"{left[0]} was left behind" if left else None)

    def without_room(self, unit):
        """A job on a file system without a free byte: exit code 1, and what there was stays as it was. A record."""
        job = self.stage.inputs.job(unit)
        self.stage.set_up(job)
        outcome, why = "skipped", None
        with SmallDisk(job) as disk:
            if disk.ready:
                outcome, why = "exit 1", self.on_full(job, disk)
        if not why:
            shutil.rmtree(job)
        return Record(unit, self.stage.name, "no room at all", "failed" if why else outcome, why or "")

    def on_full(self, job, disk):
        """Fills the file system and runs the job. Returns what is wrong, or None."""
        for path in [path for path in job.rglob("*") if path.is_file()]:
            there = disk.path / path.relative_to(job)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(path.read_bytes())
        disk.resize(used(disk.path) + 65536)
        subprocess.run([*disk.prefix(), "sh", "-c", "cat /dev/zero > filling"], capture_output=True, check=False)
        before = contents(disk.path)
        ended = self.program.run(self.stage.args(disk.path), job, env=self.stage.env(job), prefix=disk.prefix())
        why = objection(ended, {1}, FULL)
        return why or (None if contents(disk.path) == before else "something was left behind")

    def run(self, unit, chance, tries=3):
        """A job on a disk that is too small, several times too small, then large enough. A record."""
        job = self.stage.inputs.job(unit)
        self.stage.set_up(job)
        way = self.by_limit if chance.random() < 0.4 else self.by_file_system
        full, why = way(job, chance, tries)
        if full is None:
            return Record(unit, self.stage.name, "full disk", "skipped", "")
        if not why:
            shutil.rmtree(job)
        outcome = "failed" if why else "told, then equal" if full else "equal"
        return Record(unit, self.stage.name, "full disk", outcome, why or "")

    def by_limit(self, job, chance, tries):
        """With a limit on files. Returns how many runs met it, and what went wrong."""
        most, full = largest(self.stage.inputs.reference(self.stage.name)), 0
        sizes = sorted(int(most * chance.random()) for _ in range(tries))
        for size in [*sizes, None]:
            args = self.stage.args(job)
            if args is None:
                break
            before = None if size is None else limited(size)
            ended = self.program.run(args, job, env=self.stage.env(job), before=before)
            if why := self.judge(ended, job) or (objection(ended, {0}) if size is None else None):
                return full, f"{'no limit' if size is None else f'{size} bytes a file'}: {why}"
            full += ended.code == 1
        return full, difference(self.expected, digests(job, self.stage.outputs))

    def by_file_system(self, job, chance, tries):
        """With a small file system; `(None, None)` where none can be mounted."""
        whole, full = used(self.stage.inputs.reference(self.stage.name)), 0
        begin = [(path, path.read_bytes()) for path in job.rglob("*") if path.is_file()]
        with SmallDisk(job) as disk:
            if not disk.ready:
                return None, None
            for path, data in begin:
                there = disk.path / path.relative_to(job)
                there.parent.mkdir(parents=True, exist_ok=True)
                there.write_bytes(data)
            least = used(disk.path)
            for size in [*sorted(least + int((whole - least) * chance.random()) for _ in range(tries)), ENOUGH]:
                args = self.stage.args(disk.path)
                if args is None:
                    break
                disk.resize(size)
                ended = self.program.run(args, job, env=self.stage.env(job), prefix=disk.prefix())
                if why := self.judge(ended, disk.path) or (objection(ended, {0}) if size == ENOUGH else None):
                    shutil.copytree(disk.path, job, dirs_exist_ok=True, symlinks=True)
                    return full, f"disk of {size} bytes: {why}"
                full += ended.code == 1
            return full, difference(self.expected, digests(disk.path, self.stage.outputs))
