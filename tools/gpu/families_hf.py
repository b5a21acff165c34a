"""families_hf.py MODE STEPS ROWS LENGTH CONFIG: milliseconds of a training step of transformers (amp bf16, fused AdamW,
clipping); MODE is eager or compile, CONFIG the content of config.json."""
import json, sys, time
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

mode, steps, rows, length = sys.argv[1], *map(int, sys.argv[2:5])
raw = json.loads(sys.argv[5])
config = AutoConfig.for_model(raw.pop("model_type"), **raw, num_labels=2)
model = AutoModelForSequenceClassification.from_config(config).cuda().train()
ids = torch.randint(1000, 30000, (rows, length), device="cuda")
mask = torch.ones(rows, length, device="cuda", dtype=torch.long)
for i in range(1, rows):
    mask[i, length - (i * 7) % (length // 2):] = 0
labels = torch.arange(rows, device="cuda") % 2
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01, fused=True)
forward = torch.compile(model) if mode == "compile" else model


def step():
    with torch.autocast("cuda", torch.bfloat16):
        loss = forward(input_ids=ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


for _ in range(10):
    step()
times = []
for _ in range(5):
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    times.append((time.perf_counter() - start) * 1000 / steps)
print(sorted(times)[2])
