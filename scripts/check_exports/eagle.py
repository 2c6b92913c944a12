"""EAGLE-1/2: one Llama layer without input norm after `fc`, on the embedding of the next token and the state at this one."""
import torch
from torch import nn

import strict
from llama import DecoderLayer
from strict import Trace


def along(step, starts, text, drafts):
    """States guessed by a layer that goes on from its own outputs: after the root, then after every draft that follows.

    `starts [n, d]` are the states that pairs of committed tokens start from; `step` maps tokens and states to states.
    """
    states = []
    for row in range(len(text.ids) - drafts):
        known, guesses = starts[: row + 1], []
        for draft in range(drafts):
            tokens = text.ids[1 : row + 2 + draft]
            guesses.append(step(tokens, known)[-1])
            known = torch.cat([known, guesses[-1][None]])
        states.append(torch.stack(guesses))
    return torch.stack(states)


class Eagle(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config["architectures"] == ["LlamaForCausalLMEagle"] and config["num_hidden_layers"] == 1
        width = config["hidden_size"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], width)
        self.fc = nn.Linear(2 * width, width, bias=config.get("bias", True))
        self.layers = nn.ModuleList([DecoderLayer(config, input_norm=False)])

    def step(self, tokens, states):
        return self.layers[0](self.fc(torch.cat([self.embed_tokens(tokens), states], -1)))

    def trace(self, text, drafts, backbone):
        states = along(self.step, text.last, text, drafts)
        return Trace(text.last[: len(states)], states, backbone.lm_head(states))


def build(folder, backbone):
    shared = {"embed_tokens.weight": backbone.get_input_embeddings().weight}
    return Eagle(strict.config(folder)), strict.tensors(folder, "model.safetensors"), shared
