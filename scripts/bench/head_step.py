"""The training step of Medusa heads in PyTorch: the same shapes, loss and optimizer as `gorgon_train::head_step`.

Cross-entropy is computed in chunks of rows, so that no more logits are in memory at once than there. Prints one JSON line.
With --shape (one of shapes.py) the step of `gorgon dev suite gpu`, on a CUDA device: products in bf16, parameters and
moments in f32, steps timed in groups; --backbone runs a model of random weights over the tokens first. Shape tiny also runs on
the CPU, in f32, to try the script itself.
"""
import argparse, contextlib, json, resource, sys, time

import torch
import torch.nn.functional as F


def values(n, seed, scale, device):
    i = torch.arange(n, dtype=torch.int64, device=device)
    return (((i * 7919 + seed * 104729) % 2003).float() / 1001.5 - 1.0) * scale


class Step:
    """Heads, a table and made-up states with their labels."""

    def __init__(self, a, device):
        self.a, self.device, self.cuda = a, device, device == "cuda"
        d, vocab, n = a.hidden, a.vocab, a.positions
        table = values(vocab * d, 1, 0.05, device).view(vocab, d)
        self.table = table.bfloat16() if self.cuda else table
        rows = n // a.parts
        self.hidden = torch.cat([values(rows * d, 7 + part, 1.0, device).view(rows, d) for part in range(a.parts)])
        i = torch.arange(rows, device=device)
        self.labels = [torch.cat([(i * 31 + head * 17 + part) % vocab for part in range(a.parts)]) for head in range(a.heads)]
        zeros = lambda *shape: torch.zeros(*shape, device=device, requires_grad=True)
        self.weights = [(zeros(d, d), zeros(d)) for _ in range(a.heads)]
        self.flat = [p for pair in self.weights for p in pair]
        extra = {"fused": True} if self.cuda else {}
        self.optimizer = torch.optim.AdamW(self.flat, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0, **extra)

    def loss(self, head, rows):
        w, b = self.weights[head]
        with torch.autocast("cuda", torch.bfloat16) if self.cuda else contextlib.nullcontext():
            h = self.hidden[rows]
            logits = F.linear(h + F.silu(F.linear(h, w, b)), self.table)
        return F.cross_entropy(logits.float(), self.labels[head][rows], reduction="sum")

    def run(self):
        a = self.a
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.device)
        for head in range(a.heads):
            for first in range(0, a.positions, a.chunk):
                loss = self.loss(head, slice(first, first + a.chunk)) * (0.8 ** (head + 1) / a.positions)
                loss.backward()
                total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.flat, 1.0)
        self.optimizer.step()
        return total.item()


class Backbone:
    """A Llama of random weights, read without gradients."""

    def __init__(self, shape, device):
        from transformers import LlamaModel

        import shapes

        torch.set_default_dtype(torch.bfloat16 if device == "cuda" else torch.float32)
        with torch.device(device):
            self.model = LlamaModel(shapes.config(shape)).eval()
        torch.set_default_dtype(torch.float32)
        self.device = device

    @torch.no_grad()
    def states(self, positions, length):
        vocab = self.model.config.vocab_size
        ids = (torch.arange(positions, device=self.device) * 97 + 11) % vocab
        # A conversation at a time, as there.
        parts = [self.model(part[None], use_cache=False).last_hidden_state[0] for part in ids.split(length)]
        return torch.cat(parts).float()


def arguments():
    parser = argparse.ArgumentParser()
    for name, default in [("hidden", 256), ("vocab", 4096), ("heads", 4), ("positions", 1024), ("steps", 20), ("parts", 2),
                          ("chunk", 1024), ("threads", 2), ("rounds", 5)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--shape")
    parser.add_argument("--backbone", action="store_true")
    return parser.parse_args()


def on_gpu(a):
    """Rounds of steps as `gorgon dev suite gpu` times them, a JSON line each."""
    import shapes

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and a.shape != "tiny":
        sys.exit("head_step.py: no CUDA device")
    a.hidden, a.vocab = shapes.SHAPES[a.shape][0], shapes.SHAPES[a.shape][5]
    a.positions, length, a.steps, a.parts, a.chunk = *((256, 128) if a.shape == "tiny" else (8192, 2048)), 4, 1, 1024
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    step, backbone = Step(a, device), Backbone(a.shape, device) if a.backbone else None
    for round in range(a.rounds + 1):
        wait()
        start, loss = time.perf_counter(), 0.0
        for _ in range(a.steps):
            if backbone:
                step.hidden = backbone.states(a.positions, length)
            loss = step.run()
        wait()
        speed = a.steps * a.positions / (time.perf_counter() - start)
        if round > 0:
            print(json.dumps(dict(engine="torch " + torch.__version__, device=device, what="training",
                                  states="with the backbone" if backbone else "states kept", round=round,
                                  tokens_per_second=speed, loss=loss)), flush=True)


def main():
    a = arguments()
    if a.shape:
        return on_gpu(a)
    torch.set_num_threads(a.threads)
    step, seconds, total = Step(a, "cpu"), [], 0.0
    for _ in range(a.steps):
        start = time.perf_counter()
        total = step.run()
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds)[len(seconds) // 2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(dict(engine="torch " + torch.__version__, hidden=a.hidden, vocab=a.vocab, heads=a.heads,
                          positions=a.positions, seconds=median, positions_per_second=a.positions / median,
                          peak_bytes=peak, loss=total)))


if __name__ == "__main__":
    main()
