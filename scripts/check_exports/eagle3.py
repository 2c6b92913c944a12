"""EAGLE-3: one layer that reads normed embeddings beside normed states, on three fused taps; the original's file and speculators'.

EAGLE-3.1 norms every tap (`fc_norm`) and hands normed outputs on (`norm_output`); speculators also knows a norm on all taps
together (`norm_before_fc`).
"""
import torch
from torch import nn

import strict
from eagle import along
from llama import MLP, Attention, RMSNorm
from strict import Trace

IDS = "eagle_aux_hidden_state_layer_ids"


class Layer(nn.Module):
    def __init__(self, config, norm_before_residual):
        super().__init__()
        d, eps = config["hidden_size"], config["rms_norm_eps"]
        self.input_layernorm, self.hidden_norm = RMSNorm(d, eps), RMSNorm(d, eps)
        self.self_attn, self.mlp = Attention(config, 2 * d), MLP(config)
        self.post_attention_layernorm, self.normed = RMSNorm(d, eps), norm_before_residual

    def forward(self, embedded, states):
        read = self.hidden_norm(states)
        x = (read if self.normed else states) + self.self_attn(torch.cat([self.input_layernorm(embedded), read], -1))
        return x + self.mlp(self.post_attention_layernorm(x))


class Eagle3(nn.Module):
    """`prefix` is `midlayer` in the original's files, `layers` in those of speculators."""

    def __init__(self, layer, flags, taps, norm_before_residual, prefix):
        super().__init__()
        drafted = flags["draft_vocab_size"]
        d, vocab = layer["hidden_size"], layer["vocab_size"]
        assert layer["num_hidden_layers"] == 1
        self.embed_tokens = nn.Embedding(vocab, d)
        self.fc = nn.Linear(len(taps) * d, d, bias=False)
        one = Layer(layer, norm_before_residual)
        setattr(self, prefix, one if prefix == "midlayer" else nn.ModuleList([one]))
        self.norm, self.lm_head = RMSNorm(d, layer["rms_norm_eps"]), nn.Linear(d, drafted, bias=False)
        if drafted < vocab:
            self.register_buffer("d2t", torch.zeros(drafted, dtype=torch.int64))
            self.register_buffer("t2d", torch.zeros(vocab, dtype=torch.bool))
        if flags.get("fc_norm"):
            self.fc_norm = nn.ModuleList(RMSNorm(d, layer["rms_norm_eps"]) for _ in taps)
        if flags.get("norm_before_fc"):
            self.input_norm = RMSNorm(len(taps) * d, layer["rms_norm_eps"])
        self.taps, self.layer, self.norm_output = taps, [one], flags.get("norm_output", False)

    def fuse(self, taps):
        if hasattr(self, "fc_norm"):
            taps = [norm(tap) for norm, tap in zip(self.fc_norm, taps, strict=True)]
        read = torch.cat(taps, -1)
        return self.fc(self.input_norm(read) if hasattr(self, "input_norm") else read)

    def step(self, tokens, states):
        output = self.layer[0](self.embed_tokens(tokens), states)
        return self.norm(output) if self.norm_output else output

    def trace(self, text, drafts, backbone):
        if hasattr(self, "d2t"):
            targets = torch.arange(len(self.d2t)) + self.d2t
            assert torch.equal(self.t2d.nonzero()[:, 0], targets), "d2t and t2d name other tokens"
        fused = self.fuse([text.hidden[tap] for tap in self.taps])
        states = along(self.step, fused, text, drafts)
        return Trace(fused[: len(states)], states, self.lm_head(states if self.norm_output else self.norm(states)))


def original(folder, backbone):
    config = strict.config(folder)
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    # SGLang, SpecForge and ModelOpt count the layers that are left, vLLM those that are entered.
    taps = [left + 1 for left in config["eagle_config"][IDS]]
    assert config[IDS] == taps, "the config counts layers in two ways that differ"
    module = Eagle3(config, config, taps, False, "midlayer")
    shared = {"embed_tokens.weight": backbone.get_input_embeddings().weight}
    return module, strict.tensors(folder, "model.safetensors"), shared


def speculators(folder, backbone):
    config = strict.config(folder)
    algorithm = config["speculators_config"]
    assert config["speculators_model_type"] == "eagle3" and algorithm["algorithm"] == "eagle3"
    assert algorithm["proposal_methods"][0]["speculative_tokens"] > 0 and algorithm["verifier"]["name_or_path"]
    layer, residual = config["transformer_layer_config"], config["norm_before_residual"]
    module = Eagle3(layer, config, config[IDS], residual, "layers")
    return module, strict.tensors(folder, "model.safetensors"), {}
