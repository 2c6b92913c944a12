"""The table of stage, fault, tries and outcome, the summary line, and the log of kills."""

import json
from collections import Counter

from damage import UNNOTICED
from kills import EDGE, ENOUGH, at_work, enough_at_work

BAD = {"failed", "lost", "unequal"}
HEAD = ("stage", "fault", "tries", "outcome")


def rows(records):
    """Rows of the table, in the order in which stages and faults came up."""
    groups = {}
    for record in records:
        group = groups.setdefault((record.stage, record.fault), [0, Counter()])
        group[0] += len(record.kills) if record.fault == "kill" else 1
        group[1][record.outcome] += 1
    order = {stage: number for number, stage in enumerate(dict.fromkeys(record.stage for record in records))}
    found = []
    for (stage, fault), (tries, outcomes) in sorted(groups.items(), key=lambda item: order[item[0][0]]):
        words = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        jobs = f" ({sum(outcomes.values())} jobs)" if fault == "kill" else ""
        found.append((stage, fault if fault != "none" else "undisturbed again", f"{tries}{jobs}", words))
    return found


def printed(records):
    """The table for a terminal."""
    table = [HEAD, *rows(records)]
    widths = [max(len(row[column]) for row in table) for column in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in table)


def markdown(records):
    """The table in Markdown."""
    lines = ["| " + " | ".join(HEAD) + " |", "|---|---|--:|---|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows(records)]) + "\n"


def failures(records):
    """Records that failed."""
    return [record for record in records if record.outcome in BAD]


def summary(records):
    """The summary line, and whether everything held."""
    kills = [kill for record in records for kill in record.kills]
    inside = 100 * sum(map(at_work, kills)) / max(1, len(kills))
    counts = Counter(record.outcome for record in records)
    faults = sum(record.fault not in ("kill", "none", "planted damage") for record in records)
    line = f"kills {len(kills)}, inside the work {inside:.1f} %, losses {counts['lost']}, unequal {counts['unequal']}"
    unnoticed, other = (counts[outcome] for outcome in UNNOTICED)
    line += f"; faults {faults}, failed {counts['failed']}, skipped {counts['skipped']}"
    line += f", damage unnoticed {unnoticed + other}, with another output {other}"
    if not enough_at_work(kills):
        line += f"; fewer than {100 * ENOUGH:.0f} % of the kills were between {EDGE:.0%} and {1 - EDGE:.0%} of the work"
    return line, not failures(records) and enough_at_work(kills)


def write_log(path, kills):
    """Writes the log of kills, a line each."""
    lines = (json.dumps({"kill": number} | kill, separators=(",", ":")) for number, kill in enumerate(kills, 1))
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
