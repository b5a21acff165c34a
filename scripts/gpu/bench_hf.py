"""bench_hf.py SIZE ROWS LENGTH PADDED MODE STEPS: Hugging Face transformers' training step on the GPU, as a JSON line.
MODE: eager (amp bf16, fused AdamW), compile (the same under torch.compile), peak (a large bf16 product), queries (one text at a time)."""
import json, sys, time
import torch
from transformers import BertConfig, BertForSequenceClassification

size, rows, length, padded, mode, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1", sys.argv[5], int(sys.argv[6])
layers, hidden, heads = {"minilm": (6, 384, 12), "base": (12, 768, 12), "large": (24, 1024, 16)}[size]
torch.manual_seed(1)


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


if mode == "peak":
    a, b = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    ms = median_ms(lambda: a @ b, 10, 5)
    print(json.dumps({"mode": mode, "tflops": 2 * 8192**3 / ms / 1e9, "torch": torch.__version__, "gpu": torch.cuda.get_device_name()}))
    sys.exit()

config = BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden, num_labels=2)
model = BertForSequenceClassification(config).cuda()
ids = torch.randint(1000, 30000, (rows, length), device="cuda")
labels = torch.arange(rows, device="cuda") % 2
mask = torch.ones(rows, length, device="cuda", dtype=torch.long)
if padded:
    for i in range(rows):
        mask[i, length - (i * 7) % (length // 2):] = 0
if mode == "queries":
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        ms = median_ms(lambda: model(input_ids=ids[:1], attention_mask=mask[:1]).logits.softmax(-1).cpu(), steps, 10)
    print(json.dumps({"mode": mode, "queriesPerSecond": 1000 / ms}))
    sys.exit()

model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01, fused=True)
forward = torch.compile(model) if mode == "compile" else model


def step():
    with torch.autocast("cuda", torch.bfloat16):
        loss = forward(input_ids=ids, attention_mask=mask if padded else None, labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


ms = median_ms(step, steps, 12)
print(json.dumps({"mode": mode, "size": size, "rows": rows, "length": length, "padded": padded, "ms": ms, "peakGiB": torch.cuda.max_memory_allocated() / 2**30}))
