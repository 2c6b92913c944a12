"""Writes medusa_lm_head.pt: two Medusa heads of width 4 over 8 tokens, saved as the original trainer saves them."""

import pathlib

import torch

state = {}
for head in range(2):
    state[f"{head}.0.linear.weight"] = (torch.arange(16).reshape(4, 4) + head).to(torch.float16) / 16
    state[f"{head}.0.linear.bias"] = torch.arange(4).to(torch.float16) - head
    state[f"{head}.1.weight"] = (torch.arange(32).reshape(8, 4) - head).to(torch.float16) / 32
torch.save(state, pathlib.Path(__file__).with_name("medusa_lm_head.pt"))
