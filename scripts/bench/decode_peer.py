"""Plain decoding with transformers, for `gorgon dev suite cpu --python PYTHON`.

usage: decode_peer.py MODEL THREADS. Prints a line when ready; then answers each line on standard input with one of JSON.
`decode`: the speed of 48 greedy tokens after a prompt of 64 (attention as transformers chooses it, f32, its own cache);
`prefill N`: seconds of reading N tokens; `verify N`: seconds of a pass over N tokens after the prompt.
"""
import json, sys, time
import torch
from transformers import AutoModelForCausalLM

torch.set_num_threads(int(sys.argv[2]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
vocab = model.config.vocab_size


def some(tokens):
    return torch.tensor([[(i * 97 + 11) % vocab for i in range(tokens)]])


prompt = some(64)


@torch.inference_mode()
def decode(tokens):
    """Seconds for `tokens` steps, prefill apart."""
    output = model(prompt, use_cache=True)
    token = output.logits[:, -1:].argmax(-1)
    cache = output.past_key_values
    started = time.perf_counter()
    for _ in range(tokens):
        output = model(token, past_key_values=cache, use_cache=True)
        token = output.logits[:, -1:].argmax(-1)
    return time.perf_counter() - started


@torch.inference_mode()
def prefill(tokens):
    """Seconds of reading `tokens` tokens, with the logits after the last."""
    started = time.perf_counter()
    model(some(tokens), logits_to_keep=1).logits.argmax(-1)
    return time.perf_counter() - started


@torch.inference_mode()
def verify(tokens):
    """Seconds of a pass over `tokens` tokens after the prompt, with the argmax of each: the median of five."""
    cache, times = model(prompt, use_cache=True).past_key_values, []
    for _ in range(5):
        started = time.perf_counter()
        model(some(tokens), past_key_values=cache, use_cache=True).logits.argmax(-1)
        times.append(time.perf_counter() - started)
        cache.crop(-tokens)
    return sorted(times)[2]


decode(4)
print("ready", flush=True)
for line in sys.stdin:
    what, *count = line.split()
    if what == "decode":
        answer = {"tokens_per_second": 48 / decode(48)}
    else:
        answer = {"seconds": {"prefill": prefill, "verify": verify}[what](int(count[0]))}
    print(json.dumps(answer), flush=True)
