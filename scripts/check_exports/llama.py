"""A Llama decoder layer as published code declares it: names, shapes and rotary embeddings."""
import torch
from torch import nn
from torch.nn import functional as F
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def frequencies(config):
    """Radians per position, and what cosines and sines are multiplied by; scaled ones are computed by transformers."""
    width, theta, scaling = head_dim(config), config["rope_theta"], config.get("rope_scaling")
    if not scaling:
        return theta ** (-torch.arange(0, width, 2) / width), 1.0
    parameters = {**scaling, "rope_theta": theta}
    keys = ("hidden_size", "num_attention_heads", "max_position_embeddings")
    said = LlamaConfig(**{key: config[key] for key in keys}, head_dim=width, rope_parameters=parameters)
    return ROPE_INIT_FUNCTIONS[scaling["rope_type"]](said, None)


def rotate(x, rope):
    """Rotates `x [rows, heads, head_dim]` to positions from 0 on."""
    speeds, scale = rope
    angles = torch.outer(torch.arange(len(x)), speeds)[:, None]
    cos, sin = angles.cos() * scale, angles.sin() * scale
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self, config, reads):
        super().__init__()
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.width, self.rope = head_dim(config), frequencies(config)
        bias = config.get("attention_bias", False)
        self.q_proj = nn.Linear(reads, self.heads * self.width, bias=bias)
        self.k_proj = nn.Linear(reads, self.kv_heads * self.width, bias=bias)
        self.v_proj = nn.Linear(reads, self.kv_heads * self.width, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.width, config["hidden_size"], bias=False)

    def forward(self, x):
        """Causal attention over `x [rows, reads]`."""
        q, k, v = (p(x).view(len(x), -1, self.width) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, self.rope), rotate(k, self.rope)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * self.width**-0.5
        later = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        mixed = torch.einsum("hqk,khd->qhd", scores.masked_fill(later, -torch.inf).softmax(-1), v)
        return self.o_proj(mixed.reshape(len(x), -1))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        d, i = config["hidden_size"], config["intermediate_size"]
        self.gate_proj, self.up_proj = nn.Linear(d, i, bias=False), nn.Linear(d, i, bias=False)
        self.down_proj = nn.Linear(i, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """`input_norm` is left out of EAGLE-1's first layer."""

    def __init__(self, config, input_norm=True):
        super().__init__()
        d, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn, self.mlp = Attention(config, d), MLP(config)
        if input_norm:
            self.input_layernorm = RMSNorm(d, eps)
        self.post_attention_layernorm = RMSNorm(d, eps)

    def forward(self, x):
        read = self.input_layernorm(x) if hasattr(self, "input_layernorm") else x
        x = x + self.self_attn(read)
        return x + self.mlp(self.post_attention_layernorm(x))
