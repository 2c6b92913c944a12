"""Medusa heads: the original's and text-generation-inference's modules, vLLM's, and a whole Medusa-2 model."""
import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig, LlamaForCausalLM

import strict
from strict import Trace


class ResBlock(nn.Module):
    """As the original declares it: `linear` starts from zero, so that a block starts as the identity."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        return x + F.silu(self.linear(x))


def trace(states, logits, text, drafts):
    """All heads read the state at the last committed token."""
    rows = len(text.ids) - drafts
    return Trace(text.last[:rows], states[:rows, :drafts], logits[:rows, :drafts])


class Heads(nn.ModuleList):
    """Version 1 ends every head in an LM head of its own; version 2 has blocks alone, and the base model's LM head."""

    def __init__(self, config, own_lm_heads):
        width, vocab = config["hidden_size"], config["vocab_size"]
        layers = config["medusa_num_layers"]
        # One block object, repeated, as the original builds it.
        blocks = lambda: [ResBlock(width)] * layers
        last = lambda: [nn.Linear(width, vocab, bias=False)] if own_lm_heads else []
        super().__init__([nn.Sequential(*blocks(), *last()) for _ in range(config["medusa_num_heads"])])
        self.layers, self.own_lm_heads = layers, own_lm_heads

    def trace(self, text, drafts, backbone):
        states = torch.stack([head[: self.layers](text.last) for head in self], 1)
        lm_head = lambda head: head[self.layers] if self.own_lm_heads else backbone.lm_head
        logits = torch.stack([lm_head(head)(states[:, i]) for i, head in enumerate(self)], 1)
        return trace(states, logits, text, drafts)


class VllmBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, bias = config["hidden_size"], config.get("medusa_fc_bias", False)
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=bias) for _ in range(config["num_hidden_layers"]))

    def forward(self, x):
        for layer in self.layers:
            x = x + F.silu(layer(x))
        return x


class VllmMedusa(nn.Module):
    """One shared `lm_head` with `original_lm_head`, else `lm_heads`. A reduced vocabulary is not written down here."""

    def __init__(self, config):
        super().__init__()
        assert config["architectures"] == ["MedusaModel"] and config["model_type"] == "medusa"
        assert config["truncated_vocab_size"] == config["vocab_size"]
        self.blocks = nn.ModuleList(VllmBlock(config) for _ in range(config["num_heads"]))
        linear = lambda: nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)
        self.shared, self.scale = config.get("original_lm_head", False), config.get("logit_scale", 1.0)
        if self.shared:
            self.lm_head = linear()
        else:
            self.lm_heads = nn.ModuleList(linear() for _ in self.blocks)

    def trace(self, text, drafts, backbone):
        states = torch.stack([block(text.last) for block in self.blocks], 1)
        lm_heads = [self.lm_head] * len(self.blocks) if self.shared else self.lm_heads
        logits = torch.stack([lm_head(states[:, i]) for i, lm_head in enumerate(lm_heads)], 1)
        return trace(states, logits * self.scale, text, drafts)


class MedusaLlama(LlamaForCausalLM):
    """A Medusa-2 model: a Llama with `medusa_head` beside its LM head."""

    def __init__(self, config):
        super().__init__(config)
        shape = {key: getattr(config, key) for key in ("hidden_size", "vocab_size", "medusa_num_heads", "medusa_num_layers")}
        self.medusa_head = Heads(shape, own_lm_heads=True)

    def trace(self, text, drafts, backbone):
        return self.medusa_head.trace(text, drafts, backbone)


def heads(folder, backbone, version):
    module = Heads(strict.config(folder), own_lm_heads=version == 1)
    assert "architectures" not in strict.config(folder), "text-generation-inference would build no head"
    return module, strict.tensors(folder, "medusa_lm_head.safetensors"), {}


def vllm(folder, backbone):
    return VllmMedusa(strict.config(folder)), strict.tensors(folder, "model.safetensors"), {}


def merged(folder, backbone):
    config = LlamaConfig.from_pretrained(folder)
    stored = strict.tensors(folder, "model.safetensors")
    tied = {"lm_head.weight": stored["model.embed_tokens.weight"]} if config.tie_word_embeddings else {}
    return MedusaLlama(config).float(), stored, tied
