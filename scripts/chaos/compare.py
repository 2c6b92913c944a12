"""Digests of results, and where two of them differ."""

import hashlib
import json

# Keys of measurements that depend on the clock or on the machine.
CLOCK = ("second", "_ms", "per_s", "time", "memory", "rss", "planned", "measured")


def without_clock(value):
    """A JSON value without measurements of time and memory."""
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not any(word in key for word in CLOCK)}
        return {key: without_clock(item) for key, item in kept.items()}
    return [without_clock(item) for item in value] if isinstance(value, list) else value


def as_bytes(data):
    """Every byte counts."""
    return data


def as_records(data):
    """Lines of JSON without the clock."""
    lines = [json.dumps(without_clock(json.loads(line)), sort_keys=True) for line in data.splitlines()]
    return "\n".join(lines).encode()


def as_document(*keys):
    """These keys of a JSON document, without the clock."""

    def read(data):
        document = json.loads(data)
        return json.dumps(without_clock({key: document[key] for key in keys}), sort_keys=True).encode()

    return read


def as_comparison(data):
    """Methods, trees and acceptance of a comparison, but for calibrated trees, which depend on the clock."""
    rows = [row for row in json.loads(data)["results"] if not row["tree"].startswith("calibrated")]
    kept = [[row["method"], row["tree"], row["tokens_per_step"], row["summary"]["same_text"], row["summary"]["pairs"]]
            for row in rows]
    return json.dumps(kept).encode()


def as_bench(data):
    """Steps and accepted drafts of every text of a measurement."""
    keys = ("id", "round", "drafted", "tokens", "steps", "nodes", "accepted", "same")
    return json.dumps([[run[key] for key in keys] for run in json.loads(data)["runs"]]).encode()


def digests(folder, outputs):
    """SHA-256 by relative path, of all files below a folder that the patterns of `outputs` name.

    `outputs` maps a pattern to the reading that decides which part of a file counts. A file that cannot be read that
    way has the error as its digest.
    """
    found = {}
    for pattern, reading in outputs.items():
        for path in sorted(folder.glob(pattern)):
            if path.is_file():
                name = path.relative_to(folder).as_posix()
                try:
                    found[name] = hashlib.sha256(reading(path.read_bytes())).hexdigest()
                except (ValueError, KeyError, TypeError) as error:
                    found[name] = f"unreadable: {error}"
    return found


def difference(expected, found):
    """The first difference of two digests in words, or None."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} is there, but not after an undisturbed run"
        if expected[name] != found[name]:
            return f"{name} differs from that of an undisturbed run"
    return None


def half_written(expected, found):
    """The first file that is there and is not what it has to become, or None."""
    wrong = [name for name in sorted(found) if name in expected and found[name] != expected[name]]
    return f"{wrong[0]} is there, but not whole" if wrong else None


def leftovers(folder):
    """Temporary files that a run which ended by itself left behind."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob(".gorgon-*.tmp"))
