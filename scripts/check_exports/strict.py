"""Loading files strictly, and what a drafter is compared by."""
import json
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file


class Trace(NamedTuple):
    """What a drafter says along given tokens; row (i, k) guesses token i + k + 2."""

    inputs: torch.Tensor  # [rows, d]
    states: torch.Tensor  # [rows, drafts, d]
    logits: torch.Tensor  # [rows, drafts, D]


class Text(NamedTuple):
    """Token ids, and the backbone's states at them: `hidden[i]` enters layer i, `last` is after the final norm."""

    ids: torch.Tensor
    hidden: tuple
    last: torch.Tensor


def config(folder):
    return json.loads((Path(folder) / "config.json").read_text())


def tensors(folder, name):
    return load_file(Path(folder) / name)


def load(module, stored, shared=None):
    """Loads every tensor of a file, which has to hold all that `module` declares and nothing else.

    `shared` names what the published loaders take from the base model where the file leaves it out.
    """
    declared = module.state_dict()
    for name, tensor in stored.items():
        if name in declared and declared[name].is_floating_point() != tensor.is_floating_point():
            raise TypeError(f"{name} is stored as {tensor.dtype}")
    filled = {name: tensor for name, tensor in (shared or {}).items() if name not in stored}
    module.load_state_dict({**filled, **stored}, strict=True)
    return module.eval()


def bites(module, stored, shared=None):
    """Whether loading fails with a tensor less, a tensor more, and a tensor of another shape."""
    name = next(name for name in stored if name not in (shared or {}))
    less = {key: value for key, value in stored.items() if key != name}
    wrong = [less, {**stored, "surplus.weight": stored[name]}, {**stored, name: stored[name].flatten()[:-1]}]
    for broken in wrong:
        try:
            load(module, broken, shared)
        except RuntimeError:
            continue
        return False
    return True
