"""Training loops with transformers: shuffled batches, each padded to its longest text; the same with batches of similar length,
as group_by_length makes them; and the latter under autocast to bfloat16. train.mjs starts it and requests steps: reads one job
per line as JSON and prints its answer as JSON."""

import contextlib
import json
import os
import random
import sys
import time

settings = json.loads(sys.argv[1])
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# All files are local. On a host without a network, a request would only wait for its timeout.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import AutoModelForSequenceClassification, AutoTokenizer, get_linear_schedule_with_warmup

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
torch.set_num_threads(settings["threads"])
data = json.load(open(settings["data"]))
tokenizer = AutoTokenizer.from_pretrained(settings["tokenizer"])


def encode(rows):
    return [(tokenizer(row["text"], truncation=True, max_length=settings["maxLength"])["input_ids"], row["label"]) for row in rows]


def collate(rows):
    longest = max(len(ids) for ids, _ in rows)
    pad = lambda ids, value: ids + [value] * (longest - len(ids))
    return dict(
        input_ids=torch.tensor([pad(ids, tokenizer.pad_token_id) for ids, _ in rows]),
        attention_mask=torch.tensor([pad([1] * len(ids), 0) for ids, _ in rows]),
        labels=torch.tensor([label for _, label in rows]),
    )


def group_by_length(rows, size):
    """The order of the Trainer's group_by_length: 50 shuffled batches at a time are sorted by length."""
    pieces = [rows[at : at + 50 * size] for at in range(0, len(rows), 50 * size)]
    return [row for piece in pieces for row in sorted(piece, key=lambda row: len(row[0]), reverse=True)]


class Loop:
    def __init__(self, seed, model, rows, mode):
        self.autocast = (lambda: torch.autocast("cpu", dtype=torch.bfloat16)) if mode == "bf16" else contextlib.nullcontext
        random.seed(seed)
        torch.manual_seed(seed)
        self.model = AutoModelForSequenceClassification.from_pretrained(model, dtype=torch.float32).train()
        order = random.sample(rows, len(rows))
        size = settings["batchSize"]
        if mode != "plain":
            order = group_by_length(order, size)
        self.batches = [order[at : at + size] for at in range(0, len(order), size)]
        plain = lambda name: name.endswith(".bias") or "LayerNorm" in name
        named = list(self.model.named_parameters())
        self.optimizer = torch.optim.AdamW(
            [
                dict(params=[p for name, p in named if not plain(name)], weight_decay=0.01),
                dict(params=[p for name, p in named if plain(name)], weight_decay=0.0),
            ],
            lr=settings["learningRate"],
        )
        self.schedule = get_linear_schedule_with_warmup(self.optimizer, 0, len(self.batches))
        self.at = 0

    def steps(self, count):
        chosen = self.batches[self.at : self.at + count]
        self.at += count
        start = time.perf_counter()
        for rows in chosen:
            with self.autocast():
                loss = self.model(**collate(rows)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            loss.item()
        return dict(seconds=time.perf_counter() - start, examples=sum(map(len, chosen)))

    def accuracy(self, rows):
        self.model.eval()
        rows = sorted(rows, key=lambda row: len(row[0]))
        correct = 0
        with torch.no_grad():
            for at in range(0, len(rows), 64):
                batch = collate(rows[at : at + 64])
                labels = batch.pop("labels")
                correct += (self.model(**batch).logits.argmax(-1) == labels).sum().item()
        return correct / len(rows)


train, dev = encode(data["train"]), encode(data["dev"])
print(json.dumps(dict(torch=torch.__version__, transformers=transformers.__version__)), flush=True)
loops = {}
for line in sys.stdin:
    job = json.loads(line)
    if "seed" in job:
        loops[job["mode"]] = Loop(job["seed"], job["model"], train, job["mode"])
        answer = {}
    elif "steps" in job:
        answer = loops[job["mode"]].steps(job["steps"])
    else:
        answer = dict(accuracy=loops[job["mode"]].accuracy(dev))
    print(json.dumps(answer), flush=True)
