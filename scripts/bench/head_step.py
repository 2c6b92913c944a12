"""The training step of Medusa heads in PyTorch: the same shapes, loss and optimizer as `benches/head_step.rs`.

Cross-entropy is computed in chunks of rows, so that no more logits are in memory at once than there. Prints one JSON line.
"""
import argparse, json, resource, time

import torch
import torch.nn.functional as F


def values(n, seed, scale):
    i = torch.arange(n, dtype=torch.int64)
    return (((i * 7919 + seed * 104729) % 2003).float() / 1001.5 - 1.0) * scale


def main():
    parser = argparse.ArgumentParser()
    for name, default in [("hidden", 256), ("vocab", 4096), ("heads", 4), ("positions", 1024), ("steps", 20),
                          ("chunk", 1024), ("threads", 2)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    d, vocab, k, n = a.hidden, a.vocab, a.heads, a.positions
    table = values(vocab * d, 1, 0.05).view(vocab, d)
    half = n // 2
    hidden = torch.cat([values(half * d, 7 + part, 1.0).view(half, d) for part in range(2)])
    i = torch.arange(half)
    labels = [torch.cat([(i * 31 + head * 17 + part) % vocab for part in range(2)]) for head in range(k)]
    weights = [(torch.zeros(d, d, requires_grad=True), torch.zeros(d, requires_grad=True)) for _ in range(k)]
    flat = [p for pair in weights for p in pair]
    optimizer = torch.optim.AdamW(flat, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    seconds, total = [], 0.0
    for _ in range(a.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for head, (w, b) in enumerate(weights):
            scale = 0.8 ** (head + 1) / n
            for first in range(0, n, a.chunk):
                h = hidden[first:first + a.chunk]
                top = h + F.silu(F.linear(h, w, b))
                loss = F.cross_entropy(F.linear(top, table), labels[head][first:first + a.chunk], reduction="sum") * scale
                loss.backward()
                total += loss.item()
        torch.nn.utils.clip_grad_norm_(flat, 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds)[len(seconds) // 2]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(dict(engine="torch " + torch.__version__, hidden=d, vocab=vocab, heads=k, positions=n, seconds=median,
                          positions_per_second=n / median, peak_bytes=peak, loss=total)))


if __name__ == "__main__":
    main()
