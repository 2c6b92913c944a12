"""Writes hydra.safetensors and mtp.safetensors: losses and gradients of small random heads, computed with PyTorch in
float64. Run in this folder: `python heads.py` (needs torch and safetensors)."""

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

torch.set_default_dtype(torch.float64)
D, V, HEADS, KV, HEAD_DIM, WIDE, THETA, EPS = 8, 20, 2, 1, 6, 12, 100.0, 1e-5
LENGTHS = [7, 5]
SCALES = [0.5, 0.3, 0.2]


def rms(x, w):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def rotate(x):
    """x [n, heads, HEAD_DIM]; positions count from 0."""
    n, half = x.shape[0], HEAD_DIM // 2
    angle = torch.arange(n)[:, None] * THETA ** (-torch.arange(half) / half)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def layer(w, prefix, x):
    """A Llama decoder layer over one sequence, x [n, D]."""
    g = lambda name: w[prefix + name + ".weight"]
    n = x.shape[0]
    y = rms(x, g("input_layernorm"))
    q = rotate((y @ g("self_attn.q_proj").T).view(n, HEADS, HEAD_DIM))
    k = rotate((y @ g("self_attn.k_proj").T).view(n, KV, HEAD_DIM)).repeat_interleave(HEADS // KV, 1)
    v = (y @ g("self_attn.v_proj").T).view(n, KV, HEAD_DIM).repeat_interleave(HEADS // KV, 1)
    scores = torch.einsum("ihd,jhd->hij", q, k) / HEAD_DIM**0.5
    scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
    mixed = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(n, -1)
    x = x + mixed @ g("self_attn.o_proj").T
    y = rms(x, g("post_attention_layernorm"))
    return x + (F.silu(y @ g("mlp.gate_proj").T) * (y @ g("mlp.up_proj").T)) @ g("mlp.down_proj").T


def layer_shapes(prefix):
    q, kv = HEADS * HEAD_DIM, KV * HEAD_DIM
    shapes = {
        "input_layernorm": [D], "self_attn.q_proj": [q, D], "self_attn.k_proj": [kv, D], "self_attn.v_proj": [kv, D],
        "self_attn.o_proj": [D, q], "post_attention_layernorm": [D], "mlp.gate_proj": [WIDE, D],
        "mlp.up_proj": [WIDE, D], "mlp.down_proj": [D, WIDE],
    }
    return {f"{prefix}{name}.weight": shape for name, shape in shapes.items()}


def make(shapes):
    w = {}
    for name, shape in shapes.items():
        values = torch.randn(shape) / (shape[-1] ** 0.5 if len(shape) == 2 else 4)
        w[name] = (values + (1.0 if "norm" in name else 0.0)).float().double().requires_grad_()
    return w


class Data:
    """States of sequences, the tokens after them, and the labels of three heads."""

    def __init__(self):
        self.lm_head = torch.randn(V, D).float().double()
        table = torch.randn(V, D).float().double()
        self.states, self.text, self.first = [], [], []
        rows = 0
        for n in LENGTHS:
            self.first.append(rows)
            self.states.append(torch.randn(n, D).float().double())
            self.text.append(torch.randint(0, V, (n + 1,)))
            rows += n
        at = lambda text, i: text[min(i, len(text) - 1)]
        self.following = [
            [torch.stack([table[at(text, t + j + 1)] for t in range(n)]) for text, n in zip(self.text, LENGTHS)]
            for j in range(3)
        ]
        # Head k (from 0) at t is about token t + k + 2, whose distribution is that of state t + k + 1.
        self.places = [
            [(s, t) for s, n in enumerate(LENGTHS) for t in range(n - k - 1) if (t + s + k) % 4 != 1] for k in range(3)
        ]

    def tokens(self, k):
        return torch.stack([self.text[s][t + k + 2] for s, t in self.places[k]])

    def teachers(self, k):
        return torch.stack([self.states[s][t + k + 1] for s, t in self.places[k]])

    def file(self):
        out = {"lm_head": self.lm_head, "states": torch.cat(self.states)}
        for k in range(3):
            out[f"following.{k}"] = torch.cat(self.following[k])
            out[f"rows.{k}"] = torch.tensor([self.first[s] + t for s, t in self.places[k]])
            out[f"tokens.{k}"] = self.tokens(k)
        return out


def finish(out, case, w, tops, data, teacher=False):
    """Losses of every head, gradients of their scaled sum."""
    total = 0.0
    for k, (top, own) in enumerate(tops):
        logits = top @ (own[0] if own else data.lm_head).T + (own[1] if own else 0.0)
        hard = F.cross_entropy(logits, data.tokens(k), reduction="none")
        out[f"{case}.hard.{k}"] = hard
        loss = hard
        if teacher:
            p = (data.teachers(k) @ data.lm_head.T).softmax(-1)
            loss = -(p * logits.log_softmax(-1)).sum(-1)
        out[f"{case}.loss.{k}"] = loss
        total = total + SCALES[k] * loss.sum()
    total.backward()
    for name, value in w.items():
        out[f"{case}.w.{name}"], out[f"{case}.g.{name}"] = value, value.grad


def hydra(out, case, data, blocks, own, prefix, teacher):
    shapes, drop = {}, prefix
    at = lambda block: 2 * block + 1 if drop else block
    if prefix:
        shapes |= layer_shapes("prefix_embeding_layer.layers.0.") | {"prefix_embeding_layer.norm.weight": [D]}
    for i in range(3):
        for block in range(blocks):
            width = (i + 2) * D if block == 0 else D
            shapes |= {f"hydra_mlp.{i}.{at(block)}.linear.weight": [D, width], f"hydra_mlp.{i}.{at(block)}.linear.bias": [D]}
            if block == 0:
                name = f"hydra_mlp.{i}.{at(0)}.res_connection"
                shapes |= {f"{name}.weight": [D, width], f"{name}.bias": [D]}
        if own:
            name = f"hydra_lm_head.{i}" + (".1" if drop else "")
            shapes |= {f"{name}.weight": [V, D], f"{name}.bias": [V]}
    w = make(shapes)
    states = data.states
    if prefix:
        states = [rms(layer(w, "prefix_embeding_layer.layers.0.", x), w["prefix_embeding_layer.norm.weight"]) for x in states]
    tops = []
    for i in range(3):
        parts = lambda s, t: [states[s][t]] + [data.following[j][s][t] for j in range(i + 1)]
        z = torch.stack([torch.cat(parts(s, t)) for s, t in data.places[i]])
        for block in range(blocks):
            name = f"hydra_mlp.{i}.{at(block)}"
            inner = F.silu(z @ w[f"{name}.linear.weight"].T + w[f"{name}.linear.bias"])
            if block == 0:
                z = z @ w[f"{name}.res_connection.weight"].T + w[f"{name}.res_connection.bias"] + inner
            else:
                z = z + inner
        name = f"hydra_lm_head.{i}" + (".1" if drop else "")
        tops.append((z, (w[f"{name}.weight"], w[f"{name}.bias"]) if own else None))
    finish(out, case, w, tops, data, teacher)


def mtp(out, case, data, modules):
    shapes = {}
    for k in range(modules):
        p = f"model.layers.{2 + k}."
        shapes |= {f"{p}enorm.weight": [D], f"{p}hnorm.weight": [D], f"{p}eh_proj.weight": [D, 2 * D]}
        shapes |= layer_shapes(p) | {f"{p}shared_head.norm.weight": [D]}
    w = make(shapes)
    states, tops = data.states, []
    for k in range(modules):
        p = f"model.layers.{2 + k}."
        joined = lambda e, h: torch.cat([rms(e, w[p + "enorm.weight"]), rms(h, w[p + "hnorm.weight"])], -1)
        states = [
            rms(layer(w, p, joined(e, h) @ w[p + "eh_proj.weight"].T), w[p + "shared_head.norm.weight"])
            for e, h in zip(data.following[k], states)
        ]
        tops.append((torch.stack([states[s][t] for s, t in data.places[k]]), None))
    finish(out, case, w, tops, data)


def write(path, out):
    narrow = lambda x: x.detach().contiguous().to(torch.float32 if x.is_floating_point() else torch.int64)
    save_file({name: narrow(x) for name, x in out.items()}, path)


torch.manual_seed(1)
data = Data()
out = data.file()
hydra(out, "plain", data, blocks=1, own=False, prefix=False, teacher=False)
hydra(out, "own", data, blocks=2, own=True, prefix=False, teacher=False)
hydra(out, "plus", data, blocks=4, own=False, prefix=True, teacher=True)
write("hydra.safetensors", out)
torch.manual_seed(2)
data = Data()
out = data.file()
mtp(out, "one", data, modules=1)
mtp(out, "three", data, modules=3)
write("mtp.safetensors", out)
