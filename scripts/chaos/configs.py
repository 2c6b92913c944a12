"""Configs of the jobs: small, so that each takes a few seconds at most."""

DISTILL = """
model = "{model}"
out = "data"
max_tokens = 320
batch_size = 8
{prompts}
[sampling]
temperature = {temperature}
max_new_tokens = {new_tokens}
seed = 3
"""

SYNTHETIC = """
[synthetic]
dialogues = {dialogues}
seed = 5
"""

TRAIN = """
method = "{method}"
model = "{model}"
data = "{data}"
runs = "runs"
{features}
held_out = 0.15
seed = 1
eval_conversations = 6
eval_decoded_prompts = 2
eval_decoded_tokens = 12
{section}
[training]
steps = {steps}
gradient_accumulation = 2
micro_batch_tokens = 256
max_seq_len = 320
learning_rate = 2e-3
log_every = 1
eval_every = {eval_every}
save_every = {save_every}
save_total_limit = 2
"""

# By method: the config's `method`, and its own section.
METHODS = {
    "medusa": ("medusa", "[medusa]\nheads = 3"),
    # Wide heads, so that writing them takes a moment.
    "wide": ("medusa", "[medusa]\nheads = 8\nown_lm_heads = true"),
    "eagle": ("eagle", "[eagle]\nnoise = 0.1"),
    "hydra": ("hydra", "[hydra]\nheads = 2\nprefix_attention = true\nsoft_targets = true"),
    # The backbone's adapter alone counts: few matrices, and the heads hardly weigh.
    "lora": ("medusa-2", '[medusa]\nheads = 1\n[medusa2]\nheads_weight = 0.01\nwarmup = "ramp"\nbackbone_rate = 1.0\n'
                         'language = "cross-entropy"\n[medusa2.lora]\nrank = 4\ntargets = ["q_proj", "v_proj"]'),
    "eagle3": ("eagle3", "[eagle3]\nsteps = 2"),
    "mtp": ("mtp", "[mtp]\ndepths = 2"),
    "kangaroo": ("kangaroo", "[kangaroo]\nexit_layer = 1"),
    "ppd": ("ppd", "[ppd]\nensemble = 2"),
    # The model is its own draft model: what is fitted is a whole model.
    "distill-spec": ("distill-spec", '[distill_spec]\ndraft = "{model}"\nanswers = "data"'),
    "medusa-2": ("medusa-2", "[medusa]\nheads = 2\n[medusa2.lora]\nrank = 8"),
    "block": ("block", "[block]\nlayers = 1\nblock_size = 4\nanchors = 8"),
    "layerskip": ("layerskip", "[layerskip]\nexit_layer = 1"),
    "cllm": ("cllm", "[cllm.lora]\nrank = 4"),
    "space-sft": ("space-sft", "[space_sft]\nmasks = 2"),
}

FEATURES = 'features = "features"\nfeature_format = "{format}"'

PRETRAIN = """
seed = 3
out = "model"
runs = "runs"
[data]
synthetic = 300
held_out = 4
prompt_weight = 0.1
[tokenizer]
size = 500
conversations = 300
[model]
hidden_size = 64
intermediate_size = 96
layers = 2
heads = 2
kv_heads = 1
max_positions = 256
[training]
steps = 48
micro_batch_tokens = 512
log_every = 1
eval_every = 8
save_every = 4
save_total_limit = 2
optimizer = "muon"
"""

COMPARE = """
model = "{model}"
data = "{data}"
prompts = "prompts.jsonl"
runs = "runs"
calibration_prompts = 2
bench_prompts = 4
max_new_tokens = 16
rounds = 1
seeds = [1]
[budget]
steps = 48
eval_every = 24
save_every = 8
[[methods]]
name = "lookup"
drafter = "ngram:2"
[[methods]]
name = "Medusa"
config = "train.toml"
tree = "chain:2"
"""
