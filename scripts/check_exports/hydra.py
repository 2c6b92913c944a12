"""Hydra and Hydra++: heads that read the state and the embeddings of the tokens drafted before them."""
import torch
from torch import nn
from torch.nn import functional as F

import strict
from llama import DecoderLayer, RMSNorm
from strict import Trace


class ResBlock(nn.Module):
    """A block that narrows its input has a way around it."""

    def __init__(self, reads, width):
        super().__init__()
        self.linear = nn.Linear(reads, width)
        self.res_connection = nn.Linear(reads, width) if reads != width else nn.Identity()

    def forward(self, x):
        return self.res_connection(x) + F.silu(self.linear(x))


class Prefix(nn.Module):
    """A Llama of one layer on the base model's states; its embedding is never read."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList([DecoderLayer(config)])
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])

    def forward(self, x):
        return self.norm(self.layers[0](x))


class Hydra(nn.Module):
    def __init__(self, config, backbone_config):
        super().__init__()
        assert config["grounded_heads"] is True and config["hidden_state_offset"] == 0
        width, vocab, layers = config["hidden_size"], config["vocab_size"], config["hydra_num_layers"]
        plus = config["hydra_head_arch"] == "prefix-mlp"
        # The original repeats one block object after the first, and puts a dropout in front of everything in Hydra++.
        blocks = lambda head: [ResBlock((head + 2) * width, width)] + [ResBlock(width, width)] * (layers - 1)
        dropped = lambda parts: [part for one in parts for part in (nn.Dropout(0.0), one)] if plus else parts
        lm_head = lambda: nn.Linear(width, vocab)
        heads = range(config["hydra_num_heads"])
        self.hydra_mlp = nn.ModuleList(nn.Sequential(*dropped(blocks(head))) for head in heads)
        self.hydra_lm_head = nn.ModuleList(nn.Sequential(*dropped([lm_head()])) if plus else lm_head() for _ in heads)
        if plus:
            self.prefix_embeding_layer = Prefix(backbone_config)

    def trace(self, text, drafts, backbone):
        rows = len(text.ids) - drafts
        plus = hasattr(self, "prefix_embeding_layer")
        inputs = self.prefix_embeding_layer(text.last) if plus else text.last
        embedded = backbone.get_input_embeddings()(text.ids)
        states, read = [], inputs[:rows]
        for head in range(drafts):
            read = torch.cat([read, embedded[head + 1 : head + 1 + rows]], -1)
            states.append(self.hydra_mlp[head](read))
        logits = [self.hydra_lm_head[head](state) for head, state in enumerate(states)]
        return Trace(inputs[:rows], torch.stack(states, 1), torch.stack(logits, 1))


def build(folder, backbone):
    config = strict.config(folder)
    table = backbone.get_input_embeddings().weight
    plus = config["hydra_head_arch"] == "prefix-mlp"
    shared = {"prefix_embeding_layer.embed_tokens.weight": table} if plus else {}
    module = Hydra(config, {**backbone.config.to_dict(), "rope_theta": rope_theta(backbone.config)})
    return module, strict.tensors(folder, "hydra_lm_head.safetensors"), shared


def rope_theta(config):
    """transformers keeps it inside `rope_parameters` since version 5."""
    found = getattr(config, "rope_parameters", None) or {}
    return found.get("rope_theta") or config.rope_theta
