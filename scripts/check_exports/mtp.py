"""Multi-token-prediction modules as DeepSeek's checkpoints name them, after the backbone's last layer."""
import torch
from torch import nn

import strict
from hydra import rope_theta
from llama import DecoderLayer, RMSNorm
from strict import Trace


class SharedHead(nn.Module):
    """`head` is the backbone's."""

    def __init__(self, config):
        super().__init__()
        self.norm = RMSNorm(config["hidden_size"], config["rms_norm_eps"])


class Module(DecoderLayer):
    def __init__(self, config):
        super().__init__(config)
        d, eps = config["hidden_size"], config["rms_norm_eps"]
        self.enorm, self.hnorm = RMSNorm(d, eps), RMSNorm(d, eps)
        self.eh_proj, self.shared_head = nn.Linear(2 * d, d, bias=False), SharedHead(config)

    def step(self, embedded, states):
        x = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(states)], -1))
        return self.shared_head.norm(self(x))


class Mtp(nn.Module):
    def __init__(self, config, layers, modules):
        super().__init__()
        self.model = nn.Module()
        self.model.layers = nn.ModuleDict({str(layers + k): Module(config) for k in range(modules)})

    def trace(self, text, drafts, backbone):
        embedded = backbone.get_input_embeddings()(text.ids)
        modules, rows, states = list(self.model.layers.values()), len(text.ids) - drafts, []
        for row in range(rows):
            known, guesses = text.last[: row + 1], []
            for draft in range(drafts):
                # The last module goes on with its own outputs; the others read those of the module before.
                beyond = draft >= len(modules)
                module = modules[-1] if beyond else modules[draft]
                first = len(modules) if beyond else draft + 1
                known = torch.cat([read, guesses[-1][None]]) if beyond else known
                read = known
                known = module.step(embedded[first : first + len(read)], read)
                guesses.append(known[-1])
            states.append(torch.stack(guesses))
        states = torch.stack(states)
        return Trace(text.last[:rows], states, backbone.lm_head(states))


def build(folder, backbone):
    config = strict.config(folder)
    shape = {**backbone.config.to_dict(), "rope_theta": rope_theta(backbone.config)}
    module = Mtp(shape, config["num_hidden_layers"], config["num_nextn_predict_layers"])
    return module, strict.tensors(folder, "model.safetensors"), {}
