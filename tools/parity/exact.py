"""Recomputes blocks of a proof of `temper exact` with PyTorch alone, for a BERT with subword tokenization:
python tools/parity/exact.py PROOF.jsonl RUN/model [BLOCKS]"""
import itertools, json, random, re, struct, sys, unicodedata
import torch, torch.nn.functional as F
torch.set_grad_enabled(False)
proof, folder, count = sys.argv[1], sys.argv[2], int((sys.argv + ["1000"])[3])
config = json.load(open(f"{folder}/config.json"))
with open(f"{folder}/model.safetensors", "rb") as file:
    size = struct.unpack("<Q", file.read(8))[0]
    header, data = json.loads(file.read(size)), bytearray(file.read())
device = "cuda" if torch.cuda.is_available() else "cpu"
w = {name.removeprefix("bert."): torch.frombuffer(data[slice(*each["data_offsets"])], dtype=torch.float32).view(each["shape"]).to(device)
     for name, each in header.items() if name != "__metadata__"}
vocab = json.load(open(f"{folder}/tokenizer.json"))["model"]["vocab"]
lines = [json.loads(line) for line in open(proof)]
max_length = lines[0]["settings"]["maxLength"]

def encode(text):
    ids = []
    # BERT without letter case reads letters without accents, and underscores as punctuation.
    text = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")
    for word in re.findall(r"[^\W_]+|[^\w\s]|_", text):
        pieces, start = [], 0
        while start < len(word):
            mark = "##" if start > 0 else ""
            end = next((end for end in range(len(word), start, -1) if mark + word[start:end] in vocab), None)
            pieces = [vocab["[UNK]"]] if end is None else [*pieces, vocab[mark + word[start:end]]]
            start = end or len(word)
        ids += pieces
    return [vocab["[CLS]"], *ids[: max_length - 2], vocab["[SEP]"]]

def linear(x, name):
    return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

def norm(x, name):
    return F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], config.get("layer_norm_eps", 1e-12))

def logits(ids):
    e, heads = "embeddings", config["num_attention_heads"]
    x = w[f"{e}.word_embeddings.weight"][ids] + w[f"{e}.position_embeddings.weight"][: ids.shape[1]]
    x = norm(x + w[f"{e}.token_type_embeddings.weight"][0], f"{e}.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{i}"
        q, k, v = (linear(x, f"{at}.attention.self.{n}").unflatten(-1, (heads, -1)).transpose(1, 2) for n in ("query", "key", "value"))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = norm(x + linear(mixed, f"{at}.attention.output.dense"), f"{at}.attention.output.LayerNorm")
        x = norm(x + linear(F.gelu(linear(x, f"{at}.intermediate.dense")), f"{at}.output.dense"), f"{at}.output.LayerNorm")
    pooled = torch.tanh(linear(x[:, 0], "pooler.dense")) if "pooler.dense.weight" in w else x[:, 0]
    return linear(pooled, "classifier")

def combine(items, k, end):
    if k == 0:
        yield []
    for last in range(k - 1, end) if k else ():
        for rest in combine(items, k - 1, last):
            if all(items[each][0] != items[last][0] for each in rest):
                yield [*rest, last]

texts = {line["index"]: line for line in lines if line.get("kind") == "text"}
orders = {line["index"]: line["order"] for line in lines if line.get("kind") == "order"}
blocks = [line for line in lines if line.get("kind") == "block"]
different = 0
for block in random.Random(0).sample(blocks, min(count, len(blocks))):
    text = texts[block["index"]]
    items = [(word["start"], word["end"], each) for word in text["words"] for each in word["substitutes"]]
    items = [items[i] for i in orders[block["index"]]] if block["changes"] > 1 else items
    groups, first = {}, block["block"] * 65536
    for chosen in itertools.islice(combine(items, block["changes"], len(items)), first, first + block["count"]):
        changed = text["texts"][0]
        for start, end, word in sorted((items[i] for i in chosen), reverse=True):
            changed = changed[:start] + word + changed[end:]
        groups.setdefault(len(ids := encode(changed)), []).append(ids)
    margins = []
    for ids in (group[i : i + 2048] for group in groups.values() for i in range(0, len(group), 2048)):
        z = logits(torch.tensor(ids, device=device)).T
        margins += (z[text["label"]] - z[[i for i in range(len(z)) if i != text["label"]]].amax(0)).tolist()
    same = len(margins) == block["count"] and (min(margins) < 0) == (block["margin"] < 0)
    different += not (same and abs(min(margins) - block["margin"]) < 1e-3 * max(1, abs(block["margin"])))
print(json.dumps({"blocks": min(count, len(blocks)), "different": different}))
