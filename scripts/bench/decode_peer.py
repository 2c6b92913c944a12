"""Plain decoding with transformers, for `gorgon dev suite cpu --python PYTHON`.

usage: decode_peer.py MODEL THREADS. Prints a line when ready; for each line on standard input decodes 48 tokens after a
prompt of 64 (eager attention as transformers chooses it, f32, its own key/value cache, greedy) and prints its speed.
"""
import json, sys, time
import torch
from transformers import AutoModelForCausalLM

torch.set_num_threads(int(sys.argv[2]))
model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32).eval()
vocab = model.config.vocab_size
prompt = torch.tensor([[(i * 97 + 11) % vocab for i in range(64)]])


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


decode(4)
print("ready", flush=True)
for _ in sys.stdin:
    print(json.dumps({"tokens_per_second": 48 / decode(48)}), flush=True)
