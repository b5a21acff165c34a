"""An independent implementation of ASCC and standard fine-tuning in eager PyTorch under autocast, to compare results and speed.

It only uses the same files as Temper: the model folder (config.json, tokenizer.json, *.safetensors), the data and the table.
    python tools/gpu/ascc_pytorch_baseline.py --model minilm --data DATA --task sst2 --method ascc --max-train-samples 1600
It prints one JSON line: clean accuracy after every epoch, final accuracy under PWWS, seconds of training, and steps.
"""
import argparse, glob, json, math, random, re, time
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import BertConfig, BertModel

parser = argparse.ArgumentParser()
parser.add_argument("--model", type=Path, required=True)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--task", choices=["sst2", "imdb"], default="sst2")
parser.add_argument("--method", choices=["standard", "ascc"], default="ascc")
parser.add_argument("--all-substitutes", action="store_true", help="keep substitutes that are not in the vocabulary")
parser.add_argument("--max-train-samples", type=int, default=8000)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--num-examples", type=int, default=300, help="number of examples to attack")
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()

BATCH, LEARNING_RATE, WEIGHT_DECAY, BETA, INNER_STEPS, CANDIDATES = 32, 5e-5, 0.01, 4, 10, 9
LENGTH = {"sst2": 40, "imdb": 160}[options.task]
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(options.seed)
random.seed(options.seed)

vocabulary = json.loads((options.model / "tokenizer.json").read_text())["model"]["vocab"]
table = json.loads((options.data / "substitutions/counterfitted_neighbors.json").read_text())


def token(word):
    return vocabulary.get(word, vocabulary["[UNK]"])


def to_ids(words):
    return [vocabulary["[CLS]"], *map(token, words), vocabulary["[SEP]"]]


def substitutes(word):
    return [other for other in table.get(word, [])[: CANDIDATES - 1] if options.all_substitutes or other in vocabulary]


def read(split):
    if options.task == "sst2":
        lines = (options.data / f"glue/SST-2/{split}.tsv").read_text().splitlines()[1:]
        pairs = [line.split("\t") for line in lines]
        return [(text.lower().split()[: LENGTH - 2], int(label)) for text, label in pairs]
    name = "train" if split == "train" else "test"
    rows = [json.loads(line) for line in (options.data / f"imdb/{name}.jsonl").read_text().splitlines()]
    return [(re.findall(r"\w+|[^\w\s]", row["text"].lower())[: LENGTH - 2], int(row["label"])) for row in rows]


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(**json.loads((options.model / "config.json").read_text()))
        config._attn_implementation = "sdpa"
        self.bert = BertModel(config, add_pooling_layer=False)
        weights = load_file(glob.glob(str(options.model / "*.safetensors"))[0])
        self.bert.load_state_dict({name.removeprefix("bert."): value.float() for name, value in weights.items()}, strict=False)
        hidden = config.hidden_size
        self.drop = torch.nn.Dropout(0.1)
        self.head = torch.nn.Sequential(torch.nn.Linear(hidden, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))

    def embed(self, ids, positions=None):
        return self.bert.embeddings(input_ids=ids, position_ids=positions)

    def embed_candidates(self, candidate_ids):  # [rows, length, candidates] -> [rows, length, candidates, hidden]
        rows, length, count = candidate_ids.shape
        positions = torch.arange(length, device=device)[None, :, None].expand(candidate_ids.shape)
        return self.embed(candidate_ids.reshape(rows, -1), positions.reshape(rows, -1)).reshape(rows, length, count, -1)

    def logits(self, embedded, mask):
        bias = torch.zeros(mask.shape, device=device, dtype=embedded.dtype).masked_fill(~mask, -1e4)[:, None, None, :]
        for layer in self.bert.encoder.layer:
            found = layer(embedded, bias)
            embedded = found[0] if isinstance(found, tuple) else found
        return self.head(self.drop(embedded[:, 0])).float()


def autocast():
    return torch.autocast(device, torch.bfloat16, enabled=device == "cuda")


def padded(texts):
    rows = [to_ids(words) for words in texts]
    ids = torch.zeros(len(rows), max(map(len, rows)), dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.shape[1])[None] < lengths[:, None]


def collate(examples):
    ids, mask = padded([words for words, _ in examples])
    candidate_ids = torch.zeros(*ids.shape, CANDIDATES, dtype=torch.long)
    candidate_mask = torch.zeros(*ids.shape, CANDIDATES, dtype=torch.bool)
    candidate_ids[:, :, 0], candidate_mask[:, :, 0] = ids, True
    for i, (words, _) in enumerate(examples):
        for j, word in enumerate(words, start=1):
            found = [token(other) for other in substitutes(word)]
            candidate_ids[i, j, 1 : 1 + len(found)] = torch.tensor(found, dtype=torch.long)
            candidate_mask[i, j, 1 : 1 + len(found)] = True
    labels = torch.tensor([label for _, label in examples])
    return [tensor.to(device) for tensor in (ids, mask, candidate_ids, candidate_mask, labels)]


def kl_divergence(clean, other):
    return F.kl_div(F.log_softmax(other, -1), F.log_softmax(clean, -1), log_target=True, reduction="sum")


def find_worst_case_mixture(ids, mask, candidate_ids, candidate_mask):
    """Mixture weights after ten Adam steps up the divergence, in eval mode, without gradients of the model's weights."""
    model.eval().requires_grad_(False)
    with torch.no_grad(), autocast():
        embedded = model.embed_candidates(candidate_ids).float()
        clean = model.logits(model.embed(ids), mask)
    start = torch.randn(candidate_ids.shape, device=device) * math.sqrt(2 / (candidate_ids.shape[1] * candidate_ids.shape[2]))
    free = start.requires_grad_(True)
    optimizer = torch.optim.Adam([free], lr=1, weight_decay=2e-5)
    for _ in range(INNER_STEPS):
        with autocast():
            weights = free.masked_fill(~candidate_mask, -1e9).softmax(-1)
            attacked = model.logits((weights[..., None] * embedded).sum(2), mask)
        entropy = (-(weights * weights.clamp_min(1e-12).log()).sum(-1) * mask).sum()
        free.grad = None
        (15 / 38400 * entropy - kl_divergence(clean, attacked)).backward()
        optimizer.step()
    model.train().requires_grad_(True)
    return free.detach().masked_fill(~candidate_mask, -1e9).softmax(-1)


def compute_loss(examples):
    ids, mask, candidate_ids, candidate_mask, labels = collate(examples)
    if options.method == "standard":
        with autocast():
            return F.cross_entropy(model.logits(model.embed(ids), mask), labels)
    weights = find_worst_case_mixture(ids, mask, candidate_ids, candidate_mask)
    with autocast():
        attacked = model.logits((weights[..., None] * model.embed_candidates(candidate_ids)).sum(2), mask)
        clean = model.logits(model.embed(ids), mask)
    return F.cross_entropy(clean, labels) + BETA * kl_divergence(clean, attacked) / len(labels)


@torch.no_grad()
def probabilities(texts):
    model.eval()
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    found = [None] * len(texts)
    with autocast():
        for start in range(0, len(order), 512):
            part = order[start : start + 512]
            ids, mask = (tensor.to(device) for tensor in padded([texts[i] for i in part]))
            for i, row in zip(part, model.logits(model.embed(ids), mask).softmax(-1).tolist()):
                found[i] = row
    model.train()
    return found


def accuracy(examples):
    return sum((row[1] > 0.5) == label for row, (_, label) in zip(probabilities([words for words, _ in examples]), examples)) / len(examples)


def survives_pwws(words, label):
    replaced = lambda text, i, word: [*text[:i], word, *text[i + 1 :]]
    [before] = probabilities([words])
    if (before[1] > 0.5) != label:
        return False
    candidates = [(i, other) for i, word in enumerate(words) for other in substitutes(word)]
    asked = [replaced(words, i, "[UNK]") for i in range(len(words))] + [replaced(words, i, other) for i, other in candidates]
    drops = [before[label] - row[label] for row in probabilities(asked)]
    saliency = torch.tensor(drops[: len(words)]).softmax(0).tolist()
    best = {}
    for (i, other), drop in zip(candidates, drops[len(words) :]):
        if i not in best or drop > best[i][0]:
            best[i] = (drop, other)
    texts, text = [], words
    for i, (_, other) in sorted(best.items(), key=lambda entry: -entry[1][0] * saliency[entry[0]]):
        text = replaced(text, i, other)
        texts.append(text)
    return not texts or all(row[label] >= 0.5 for row in probabilities(texts))


train, test = read("train"), read("dev")
random.shuffle(train)
classes = [[example for example in train if example[1] == label][: options.max_train_samples // 2] for label in (0, 1)]
model = Classifier().to(device)
matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0}], lr=LEARNING_RATE)
half = BATCH // 2
per_epoch = min(map(len, classes)) // half
total = options.epochs * per_epoch
warm = 0.1 * total
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / warm if step < warm else (total - step) / (total - warm))

model.train()
clean, seconds = [], 0.0
for _ in range(options.epochs):
    for examples in classes:
        random.shuffle(examples)
    start = time.perf_counter()
    for i in range(per_epoch):
        loss = compute_loss([example for examples in classes for example in examples[i * half : (i + 1) * half]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    loss.item()  # waits for the device
    seconds += time.perf_counter() - start
    clean.append(round(accuracy(test), 4))

random.seed(0)
robust = sum(survives_pwws(*example) for example in random.sample(test, options.num_examples))
print(
    json.dumps(
        {
            **{name: getattr(options, name) for name in ("task", "method", "seed", "max_train_samples")},
            **{"clean": clean, "pwws": robust / options.num_examples, "seconds": round(seconds, 1), "steps": total},
        }
    )
)
