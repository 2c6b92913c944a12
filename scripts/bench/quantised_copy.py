#!/usr/bin/env python3
"""Writes a copy of a model whose projections are stored as FP8 (blocks of 128 x 128) or NF4 (blocks of 64).

    scripts/bench/quantised_copy.py MODEL fp8|nf4 OUT

Needs torch and safetensors. For measurements of speed and memory; nothing is done for accuracy.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

NF4 = torch.tensor([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0])


def fp8(name, values):
    """A scale for each block: its greatest magnitude becomes 448."""
    height, width = values.shape
    rows, columns = -(-height // 128), -(-width // 128)
    padded = torch.zeros(rows * 128, columns * 128)
    padded[:height, :width] = values
    blocks = padded.view(rows, 128, columns, 128)
    scales = blocks.abs().amax((1, 3)).clamp(min=1e-12) / 448
    codes = (blocks / scales[:, None, :, None]).view(rows * 128, columns * 128)[:height, :width]
    return {name: codes.to(torch.float8_e4m3fn).contiguous(), f"{name}_scale_inv": scales.contiguous()}


def nf4(name, values):
    """The nearest of 16 numbers, for blocks of 64 neighbours in storage order."""
    blocks = values.reshape(-1, 64)
    scales = blocks.abs().amax(1).clamp(min=1e-12)
    codes = ((blocks / scales[:, None])[:, :, None] - NF4).abs().argmin(-1).to(torch.uint8).reshape(-1)
    state = {"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": list(values.shape)}
    return {name: (codes[0::2] << 4 | codes[1::2]).reshape(-1, 1), f"{name}.absmax": scales, f"{name}.quant_map": NF4.clone(),
            f"{name}.quant_state.bitsandbytes__nf4": torch.tensor(list(json.dumps(state).encode()), dtype=torch.uint8)}


CONFIGS = {
    "fp8": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
    "nf4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
            "bnb_4bit_compute_dtype": "bfloat16", "bnb_4bit_use_double_quant": False},
}


def main():
    model, kind, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for file in model.glob("*.safetensors"):
        tensors.update(load_file(file))
    write = {"fp8": fp8, "nf4": nf4}[kind]
    laid = {}
    for name, values in tensors.items():
        is_projection = values.ndim == 2 and "proj" in name and name.endswith("weight")
        laid.update(write(name, values.float()) if is_projection else {name: values})
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = CONFIGS[kind]
    (out / "config.json").write_text(json.dumps(config))
    save_file(laid, out / "model.safetensors", metadata={"format": "pt"})
    for file in model.iterdir():
        if file.is_file() and not file.name.startswith("model.safetensors") and file.name != "config.json":
            shutil.copy(file, out)


if __name__ == "__main__":
    main()
