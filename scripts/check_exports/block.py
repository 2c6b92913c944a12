"""Block drafters: layers whose slots attend to context features and to each other; z-lab's file (DFlash, DFlash 2) and speculators'."""
import torch
from torch import nn

import strict
from llama import MLP, RMSNorm, frequencies, head_dim
from strict import Trace

GROUP = 16


class Attention(nn.Module):
    """Slots read context and slots with one pair of projections; queries and keys have norms."""

    def __init__(self, config):
        super().__init__()
        d, self.width = config["hidden_size"], head_dim(config)
        self.heads, self.kv_heads, self.rope = config["num_attention_heads"], config["num_key_value_heads"], frequencies(config)
        self.q_proj = nn.Linear(d, self.heads * self.width, bias=False)
        self.k_proj = nn.Linear(d, self.kv_heads * self.width, bias=False)
        self.v_proj = nn.Linear(d, self.kv_heads * self.width, bias=False)
        self.o_proj = nn.Linear(self.heads * self.width, d, bias=False)
        self.q_norm, self.k_norm = (RMSNorm(self.width, config["rms_norm_eps"]) for _ in range(2))

    def rotated(self, x, first):
        """`x [rows, heads, width]` at the positions from `first` on."""
        speeds, scale = self.rope
        angles = torch.outer(torch.arange(first, first + len(x)), speeds)[:, None]
        a, b = x.chunk(2, -1)
        cos, sin = angles.cos() * scale, angles.sin() * scale
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    def forward(self, slots, context):
        read = torch.cat([context, slots])
        q = self.rotated(self.q_norm(self.q_proj(slots).view(len(slots), -1, self.width)), len(context))
        k = self.rotated(self.k_norm(self.k_proj(read).view(len(read), -1, self.width)), 0)
        v = self.v_proj(read).view(len(read), -1, self.width)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        scores = torch.einsum("qhd,khd->hqk", q, k) * self.width**-0.5
        return self.o_proj(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(len(slots), -1))


class Convolution(nn.Module):
    """Two taps along the slots on either side of a sublayer, with coefficients that the sublayer's input adds to."""

    def __init__(self, d):
        super().__init__()
        self.base_kernel = nn.Parameter(torch.zeros(2, 2, d))
        self.kernel_projection = nn.Linear(d, 4 * d // GROUP, bias=False)

    def around(self, sublayer, x):
        added = self.kernel_projection(x).view(len(x), 2, 2, -1).repeat_interleave(GROUP, -1)
        kernel = self.base_kernel + added
        side = lambda s, z: kernel[:, s, 0] * z + kernel[:, s, 1] * torch.cat([torch.zeros_like(z[:1]), z[:-1]])
        return side(1, sublayer(side(0, x)))


class Layer(nn.Module):
    def __init__(self, config, conv):
        super().__init__()
        d, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn, self.mlp = Attention(config), MLP(config)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(d, eps), RMSNorm(d, eps)
        if conv:
            self.attention_conv, self.mlp_conv = Convolution(d), Convolution(d)

    def forward(self, x, context):
        plain = lambda sublayer, read: sublayer(read)
        first, second = (self.attention_conv.around, self.mlp_conv.around) if hasattr(self, "mlp_conv") else (plain, plain)
        x = x + first(lambda read: self.self_attn(read, context), self.input_layernorm(x))
        return x + second(self.mlp, self.post_attention_layernorm(x))


class Block(nn.Module):
    """`taps` number the hidden states that enter layers."""

    def __init__(self, config, taps, slots, mask, conv=False):
        super().__init__()
        assert set(config["layer_types"]) == {"full_attention"}
        d, eps = config["hidden_size"], config["rms_norm_eps"]
        self.fc, self.hidden_norm = nn.Linear(len(taps) * d, d, bias=False), RMSNorm(d, eps)
        self.layers = nn.ModuleList(Layer(config, conv) for _ in range(config["num_hidden_layers"]))
        self.norm, self.taps, self.slots, self.mask = RMSNorm(d, eps), taps, slots, mask

    def tables(self, backbone):
        if hasattr(self, "embed_tokens"):
            return self.embed_tokens, self.lm_head
        return backbone.get_input_embeddings(), backbone.lm_head

    def trace(self, text, drafts, backbone):
        embed, head = self.tables(backbone)
        context = self.hidden_norm(self.fc(torch.cat([text.hidden[tap] for tap in self.taps], -1)))
        rows, states = len(text.ids) - drafts, []
        for row in range(rows):
            tokens = torch.full((self.slots,), self.mask)
            tokens[0] = text.ids[row + 1]
            x = embed(tokens)
            for layer in self.layers:
                x = layer(x, context[: row + 1])
            states.append(self.norm(x)[1 : drafts + 1])
        states = torch.stack(states)
        return Trace(context[:rows], states, head(states))


def z_lab(folder, backbone):
    config = strict.config(folder)
    own = config["dflash_config"]
    second = config["architectures"] == ["DFlash2DraftModel"]
    assert second or config["architectures"] == ["DFlashDraftModel"]
    assert config["block_size"] == own["block_size"] and config["num_target_layers"] == backbone.config.num_hidden_layers
    assert not own.get("causal", False)
    # The config counts the layers that are left.
    taps = [left + 1 for left in own["target_layer_ids"]]
    module = Block(config, taps, own["block_size"], own["mask_token_id"], "conv_kernel_size" in own)
    if "selector_rank" in own:
        d, vocab, rank = config["hidden_size"], config["vocab_size"], own["selector_rank"]
        module.candidate_selector = nn.Module()
        for name in ("predecessor_codebook", "successor_codebook"):
            setattr(module.candidate_selector, name, nn.Parameter(torch.zeros(vocab, rank)))
        module.candidate_selector.hidden_projection = nn.Linear(d, rank, bias=False)
    return module, strict.tensors(folder, "model.safetensors"), {}


def speculators(folder, backbone):
    config = strict.config(folder)
    algorithm = config["speculators_config"]
    assert config["speculators_model_type"] == "dflash" and algorithm["algorithm"] == "dflash"
    assert algorithm["proposal_methods"][0]["speculative_tokens"] == config["block_size"] - 1
    assert algorithm["verifier"]["name_or_path"] and not config["sample_from_anchor"]
    layers, taps = config["transformer_layer_config"], config["aux_hidden_state_layer_ids"]
    module = Block(layers, taps, config["block_size"], config["mask_token_id"])
    d, vocab = layers["hidden_size"], layers["vocab_size"]
    assert config["draft_vocab_size"] == vocab
    module.embed_tokens, module.lm_head = nn.Embedding(vocab, d), nn.Linear(d, vocab, bias=False)
    return module, strict.tensors(folder, "model.safetensors"), {}
