"""Edited checkpoints: a `state.json` that says something else than what was written."""

import json

from damage import FINISHED, Damages, Target

# Stages whose checkpoints are edited: heads, heads with an adapter, an adapter, all weights.
STAGES = ("train-medusa", "train-medusa-2", "train-lora", "train-cllm", "train-layerskip")


def text(state):
    """A document as gorgon writes it."""
    return (json.dumps(state, indent=2) + "\n").encode()


def without(key):
    """Removes a key."""
    return lambda state: text({name: value for name, value in state.items() if name != key})


def doubled(key):
    """Has a key twice, with another value first."""
    return lambda state: text(state).replace(b"{", b'{"%s": 0, ' % key.encode(), 1)


def changed(**values):
    """Gives keys other values."""
    return lambda state: text(state | values)


def in_manifest(change):
    """Changes the list of hashes."""
    return lambda state: text(state | {"manifest": change(dict(state["manifest"]))})


def outside(manifest):
    """Names a file outside of the checkpoint."""
    return manifest | {"../../config.toml": next(iter(manifest.values()))}


EDITS = {
    "step one more": lambda state: text(state | {"step": state["step"] + 1}),
    "step one less": lambda state: text(state | {"step": state["step"] - 1}),
    "step as text": lambda state: text(state | {"step": str(state["step"])}),
    "step negative": changed(step=-1),
    "step huge": changed(step=1 << 63),
    "step as fraction": lambda state: text(state | {"step": state["step"] + 0.5}),
    "no step": without("step"),
    "no state": without("state"),
    "no manifest": without("manifest"),
    "no checksum": without("sha256"),
    "other checksum": changed(sha256="0" * 64),
    "step twice": doubled("step"),
    "state twice": doubled("state"),
    "manifest twice": doubled("manifest"),
    "state empty": changed(state={}),
    "state null": changed(state=None),
    "manifest empty": changed(manifest={}),
    "manifest outside": in_manifest(outside),
    "manifest shorter": in_manifest(lambda manifest: dict(list(manifest.items())[1:])),
    "another key": changed(surprise=[1, 2, 3]),
    "a list": lambda state: text([state]),
    "nested": lambda state: b"[" * 100_000,
    "not a number": lambda state: text(state).replace(b'"step": ', b'"step": NaN, "was": '),
}


class States(Damages):
    """Edits of the newest checkpoint's state."""

    def edit(self, unit, stage, edit):
        """One edit. A record."""
        file, args = "runs/*/step-LAST/state.json", ["train", "--resume", "RUN"]
        target = Target(stage, file, args, "equal", without=FINISHED, name="edited state.json")
        return self.run(unit, target, edit, None)

    @staticmethod
    def altered(data, kind, chance):
        """The edited document."""
        return EDITS[kind](json.loads(data))
