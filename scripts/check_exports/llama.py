"""A Llama decoder layer as published code declares it: names, shapes and rotary embeddings."""
import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def head_dim(config):
    return config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]


def rotate(x, theta):
    """Rotates `x [rows, heads, head_dim]` to positions from 0 on."""
    width = x.shape[-1]
    frequencies = theta ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(len(x)), frequencies)[:, None]
    a, b = x.chunk(2, -1)
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)


class Attention(nn.Module):
    def __init__(self, config, reads):
        super().__init__()
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.width, self.theta = head_dim(config), config["rope_theta"]
        assert not config.get("rope_scaling"), "scaled rotary embeddings are not written down here"
        bias = config.get("attention_bias", False)
        self.q_proj = nn.Linear(reads, self.heads * self.width, bias=bias)
        self.k_proj = nn.Linear(reads, self.kv_heads * self.width, bias=bias)
        self.v_proj = nn.Linear(reads, self.kv_heads * self.width, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.width, config["hidden_size"], bias=False)

    def forward(self, x):
        """Causal attention over `x [rows, reads]`."""
        q, k, v = (p(x).view(len(x), -1, self.width) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, self.theta), rotate(k, self.theta)
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
