"""Plain decoding with transformers on a CUDA device, random weights of a shape drawn there, for scripts/bench/gpu_first.sh.

usage: gpu_peer.py SHAPE CONTEXT TOKENS eager|compiled. Prints a line when ready; for each line on standard input decodes
TOKENS steps after a prompt of CONTEXT tokens (bf16, greedy) and prints its speed. `compiled` is torch.compile with a static
cache and CUDA graphs. SHAPE tiny also runs on the CPU, in f32, to try the script itself.
"""
import json, sys, time
import torch
from transformers import LlamaForCausalLM
from transformers.cache_utils import StaticCache

import shapes

shape, context, tokens, mode = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
device = "cuda" if torch.cuda.is_available() else "cpu"
if device == "cpu" and shape != "tiny":
    sys.exit("gpu_peer.py: no CUDA device")
torch.set_default_dtype(torch.bfloat16 if device == "cuda" else torch.float32)
config = shapes.config(shape)
vocab = config.vocab_size
with torch.device(device):
    model = LlamaForCausalLM(config).eval()
prompt = torch.tensor([[(i * 97 + 11) % vocab for i in range(context)]], device=device)


def wait():
    if device == "cuda":
        torch.cuda.synchronize()


def one(token, position, cache):
    output = model(token, position_ids=position, cache_position=position[0], past_key_values=cache, use_cache=True)
    return output.logits[:, -1:].argmax(-1)


step = torch.compile(one, mode="reduce-overhead", fullgraph=True) if mode == "compiled" else one


@torch.inference_mode()
def decode(count):
    """Tokens per second of `count` steps, prefill apart."""
    cache = None
    if mode == "compiled":
        cache = StaticCache(config=config, max_cache_len=context + tokens + 8)
    output = model(prompt, past_key_values=cache, use_cache=True)
    cache, token = output.past_key_values, output.logits[:, -1:].argmax(-1)
    position = torch.tensor([[context]], device=device)
    wait()
    started = time.perf_counter()
    for _ in range(count):
        token = step(token, position, cache).clone()
        position = position + 1
        token.item()
    wait()
    return count / (time.perf_counter() - started)


decode(8)
decode(tokens)
print("ready", flush=True)
for _ in sys.stdin:
    print(json.dumps({"engine": f"transformers {mode}", "tokens_per_second": decode(tokens)}), flush=True)
