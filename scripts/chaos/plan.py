"""The units of a run: which faults meet which stages, in a seeded order."""

import itertools
import random

from changes import CHANGES, Changes
from damage import Damages, targets
from disks import Disks
from network import Network
from poison import Poisons
from records import poisons
from states import EDITS, STAGES, States
from writers import Writers

DISKS, WRITERS, DAMAGES = 2, 2, 4


def in_turns(units, chance, level=0):
    """Units in a seeded order in which kinds of faults take turns, and stages within each kind."""
    if level == 2:
        return chance.sample(units, len(units))
    groups = {}
    for unit in units:
        groups.setdefault(unit[0].split("/")[level], []).append(unit)
    ordered = [in_turns(group, chance, level + 1) for group in chance.sample(list(groups.values()), len(groups))]
    return [unit for turn in itertools.zip_longest(*ordered) for unit in turn if unit]


class Plan:
    """All units but the kills. A unit is a function that returns a list of records."""

    def __init__(self, program, references, seed):
        self.program, self.references, self.seed = program, references, seed
        self.inputs = references.inputs

    def chance(self, unit):
        """The random source of a unit, the same in every run with this seed."""
        return random.Random(f"{self.seed}/{unit}")

    def units(self):
        """Units by name; those that wait for the network come first, then all kinds and all stages take turns."""
        found = [*self.of_stages(), *self.of_files(), *self.of_inputs()]
        return dict([*self.of_network(), *in_turns(found, self.chance("order"))])

    def of_network(self):
        """Misbehaving servers and hubs, many in one unit."""
        network = Network(self.program, self.references)
        yield "hub", network.hub_all
        yield "servers", network.servers_all

    def of_stages(self):
        """Full disks and two writers."""
        for name, stage in self.references.disturbed.items():
            def disk(_, unit, stage=stage, name=name):
                return [Disks(self.program, stage, self.references.expected(name)).run(unit, self.chance(unit))]

            def writers(_, unit, stage=stage, name=name):
                return [Writers(self.program, stage, self.references.expected(name)).run(unit, self.chance(unit))]

            def full(_, unit, stage=stage, name=name):
                return [Disks(self.program, stage, self.references.expected(name)).without_room(unit)]

            yield self.named(f"disk/{name}/full", full)
            for number in range(DISKS):
                yield self.named(f"disk/{name}/{number}", disk)
            for number in range(WRITERS):
                yield self.named(f"writers/{name}/{number}", writers)

    def of_files(self):
        """Damaged files and edited checkpoints."""
        damages, states = Damages(self.program, self.references), States(self.program, self.references)
        for target in targets(self.inputs):
            name = f"damage/{target.stage}/{target.title()}"
            kinds = self.chance(name).sample(sorted(set(target.kinds)), min(DAMAGES, len(set(target.kinds))))
            twice = ["twice"] if target.file.endswith(".json") else []
            for kind in dict.fromkeys(["flip", "cut", *twice, *kinds]):
                yield self.named(f"{name}/{kind}", lambda _, unit, target=target, kind=kind: [
                    damages.run(unit, target, kind, self.chance(unit))])
        for stage, edit in itertools.product(STAGES, EDITS):
            yield self.named(f"state/{stage}/{edit}",
                             lambda _, unit, stage=stage, edit=edit: [states.edit(unit, stage, edit)])

    def of_inputs(self):
        """Poisoned prompts and inputs that change."""
        taker, changes = Poisons(self.program, self.inputs), Changes(self.program, self.references)
        for poison in poisons():
            yield self.named(f"poison/{poison[0]}/{poison[1]}/{poison[2]}",
                             lambda _, unit, poison=poison: [taker.run(unit, poison)])
        for number in range(len(CHANGES)):
            yield self.named(f"change/{number}", lambda _, unit, number=number: [changes.run(unit, number)])

    @staticmethod
    def named(unit, run):
        """A unit that knows its name."""
        return unit, lambda done: run(done, unit)
