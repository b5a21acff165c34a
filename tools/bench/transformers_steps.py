"""The same work in PyTorch and transformers on command: reads one job per line as JSON and prints its milliseconds. engine.mjs starts it."""

import json
import os
import sys
import time

settings = json.loads(sys.argv[1])
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
import transformers
from transformers import BertConfig, BertForSequenceClassification

transformers.logging.set_verbosity_error()
torch.set_num_threads(settings["threads"])
torch.manual_seed(1)
model = BertForSequenceClassification._from_config(
    BertConfig(num_labels=2, **settings["config"]), attn_implementation="sdpa")
decayed = [p for n, p in model.named_parameters() if not ("bias" in n or "LayerNorm" in n)]
others = [p for n, p in model.named_parameters() if "bias" in n or "LayerNorm" in n]


def new_optimizer(**how):
    return torch.optim.AdamW([dict(params=decayed, weight_decay=0.01), dict(params=others, weight_decay=0.0)], lr=1e-5, **how)


def batch(size, length):
    return torch.randint(200, 30000, (size, length)), torch.randint(0, 2, (size,))


def forward(ids, labels):
    model.eval()
    with torch.no_grad():
        model(input_ids=ids).logits.sum().item()


def step(ids, labels, optimizer):
    model.train()
    optimizer.zero_grad(set_to_none=True)
    loss = model(input_ids=ids, labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    loss.item()


def timed(work):
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def fastest():
    """The faster one of the fused and the foreach AdamW, so that the comparison is fair."""
    candidates = {name: new_optimizer(**{name: True}) for name in ("fused", "foreach")}
    ids, labels = batch(4, 8)
    times = {name: min(timed(lambda: step(ids, labels, one)) for _ in range(4)) for name, one in candidates.items()}
    best = min(times, key=times.get)
    return best, candidates[best]


def tiny(count):
    """Microseconds of adding two small tensors."""
    a, b = torch.ones(2), torch.ones(2)

    def work():
        for _ in range(count):
            a.add(b)

    with torch.no_grad():
        return timed(work) * 1000 / count


adamw, optimizer = fastest()
print(json.dumps(dict(torch=torch.__version__, transformers=transformers.__version__, adamw=adamw, threads=torch.get_num_threads())), flush=True)
batches = {}
for line in sys.stdin:
    job = json.loads(line)
    if job["kind"] == "tiny":
        answer = tiny(job["count"])
    else:
        key = (job["batchSize"], job["length"])
        ids, labels = batches.setdefault(key, batch(*key))
        answer = timed(lambda: forward(ids, labels) if job["kind"] == "forward" else step(ids, labels, optimizer))
    print(json.dumps(answer), flush=True)
