"""bench_hf.py STEPS SPEC…: Hugging Face transformers on the GPU; prints one JSON line per SPEC.
SPEC: MODE:SIZE:ROWS:LENGTH:PADDED with MODE eager (amp bf16, fused AdamW, clipping), compile (the same under torch.compile),
peak (a large bf16 matrix product) or queries (one text at a time)."""
import json, sys, time
import torch
from transformers import BertConfig, BertForSequenceClassification

SIZES = {"minilm": (6, 384, 12), "base": (12, 768, 12), "large": (24, 1024, 16)}
steps = int(sys.argv[1])


def median_ms(run, count, warm):
    for _ in range(warm):
        run()
    torch.cuda.synchronize()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1000 / count)
    return sorted(times)[2]


def peak():
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return {"tflops": 2 * 8192**3 / median_ms(lambda: a @ b, 10, 5) / 1e9, "torch": torch.__version__}


def model_and_batch(size, rows, length, padded):
    layers, hidden, heads = SIZES[size]
    config = BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden, num_labels=2)
    ids = torch.randint(1000, 30000, (rows, length), device="cuda")
    mask = torch.ones(rows, length, device="cuda", dtype=torch.long)
    if padded:
        for i in range(rows):
            mask[i, length - (i * 7) % (length // 2):] = 0
    return BertForSequenceClassification(config).cuda(), ids, mask, torch.arange(rows, device="cuda") % 2


def train(mode, size, rows, length, padded):
    model, ids, mask, labels = model_and_batch(size, rows, length, padded)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01, fused=True)
    forward = torch.compile(model) if mode == "compile" else model
    torch.cuda.reset_peak_memory_stats()

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(input_ids=ids, attention_mask=mask if padded else None, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return {"ms": median_ms(step, steps, 10), "peakGiB": torch.cuda.max_memory_allocated() / 2**30}


def queries(size, length):
    model, ids, mask, _ = model_and_batch(size, 1, length, False)
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        ms = median_ms(lambda: model(input_ids=ids, attention_mask=mask).logits.softmax(-1).cpu(), 50, 10)
    return {"queriesPerSecond": 1000 / ms}


for spec in sys.argv[2:]:
    mode, size, rows, length, padded = spec.split(":")
    torch.manual_seed(1)
    try:
        if mode == "peak":
            found = peak()
        elif mode == "queries":
            found = queries(size, int(length))
        else:
            found = train(mode, size, int(rows), int(length), padded == "1")
    except Exception as error:
        found = {"failed": str(error).strip().split("\n")[-1][:200]}
    print(json.dumps({"spec": spec, **found}), flush=True)
    torch.cuda.empty_cache()
