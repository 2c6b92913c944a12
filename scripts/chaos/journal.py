"""The journal of a work folder: one line of JSON for every unit that is done."""

import json
from dataclasses import asdict, dataclass, field


@dataclass
class Record:
    """A unit that is done. `outcome` is a word for the table; `why` is empty unless the unit failed."""

    unit: str
    stage: str
    fault: str
    outcome: str
    why: str = ""
    seconds: float = 0.0
    kills: list = field(default_factory=list)


class Journal:
    """Records in the file `chaos.jsonl`. A line that an interruption tore is dropped."""

    def __init__(self, path):
        self.path, self.records = path, []
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        for line in text.splitlines(keepends=True):
            if line.endswith("\n"):
                self.records.append(Record(**json.loads(line)))
        path.write_text("".join(self.line(record) for record in self.records), encoding="utf-8")

    @staticmethod
    def line(record):
        """A record as a line."""
        kept = {key: value for key, value in asdict(record).items() if value not in ("", [])}
        return json.dumps(kept, separators=(",", ":"), ensure_ascii=False) + "\n"

    def add(self, record):
        """Appends a record."""
        self.records.append(record)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self.line(record))

    def done(self):
        """The units that are done."""
        return {record.unit for record in self.records}

    def kills(self):
        """All kills, as a line of the log each."""
        return [
            {"stage": record.stage, "job": int(record.unit.rsplit("/", 1)[1]), **kill}
            for record in self.records if record.fault == "kill" for kill in record.kills
        ]
