"""What a GPU reaches in PyTorch: copies and reads of 4 GiB, and products with 1, 8 and 64 rows (cuBLAS) for the five matrices of a shape.

usage: gpu_probe.py SHAPE. One JSON line per measurement, as they come. The matrix of each product is drawn again in several copies that
take turns, so that none is in the L2 cache. Shape tiny also runs on the CPU, to try the script itself.
"""
import json, sys, time

import torch

import shapes

shape = sys.argv[1]
cuda = torch.cuda.is_available()
if not cuda and shape != "tiny":
    sys.exit("gpu_probe.py: no CUDA device")
device, kind = ("cuda", torch.bfloat16) if cuda else ("cpu", torch.float32)
hidden, intermediate, _, heads, kv_heads, vocab, _ = shapes.SHAPES[shape]
COLD = (1 << 28) if cuda else (1 << 18)


def seconds(run, times):
    """The fastest of three means over `times` runs."""
    run(0)
    best = float("inf")
    for _ in range(3):
        if cuda:
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            for i in range(times):
                run(i)
            end.record()
            torch.cuda.synchronize()
            took = begin.elapsed_time(end) / 1e3
        else:
            started = time.perf_counter()
            for i in range(times):
                run(i)
            took = time.perf_counter() - started
        best = min(best, took / times)
    return best


def tell(**row):
    print(json.dumps(row), flush=True)


about = {"torch": torch.__version__}
if cuda:
    properties = torch.cuda.get_device_properties(0)
    about |= {"device": properties.name, "multiprocessors": properties.multi_processor_count, "l2_bytes": properties.L2_cache_size}
tell(**about)
large = torch.empty(16 * COLD, dtype=torch.uint8, device=device)
other = torch.empty_like(large)
tell(what="copy", gb_per_s=2 * large.numel() / seconds(lambda _: other.copy_(large), 5) / 1e9)
del other
words = large.zero_().view(torch.float32)
tell(what="read", gb_per_s=large.numel() / seconds(lambda _: words.sum(), 5) / 1e9)
del large, words
kv = hidden // heads * kv_heads
matrices = [
    ("qkv", hidden + 2 * kv, hidden), ("o", hidden, hidden), ("gate_up", 2 * intermediate, hidden),
    ("down", hidden, intermediate), ("lm_head", vocab, hidden),
]
for name, outputs, inputs in matrices:
    size = outputs * inputs * (2 if cuda else 4)
    copies = [torch.randn(outputs, inputs, device=device).to(kind) for _ in range(max(1, -(-COLD // size)))]
    for rows in (1, 8, 64):
        x = torch.randn(rows, inputs, device=device).to(kind)
        took = seconds(lambda i: torch.nn.functional.linear(x, copies[i % len(copies)]), 50 if cuda else 2)
        tell(what="product", matrix=name, rows=rows, outputs=outputs, inputs=inputs, microseconds=took * 1e6, gb_per_s=size / took / 1e9)
    del copies
