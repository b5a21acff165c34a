"""A plain transformers loop on the batches that pretrain.mjs wrote, with bf16 autocast on a GPU: python pretrain.py FOLDER DEVICE"""
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch
import transformers

folder, device = Path(sys.argv[1]), sys.argv[2]
meta = json.loads((folder / "batches.json").read_text())
settings = meta["train"]
data = np.fromfile(folder / "batches.bin", dtype=np.int32)
torch.manual_seed(0)
model, info = transformers.AutoModelForMaskedLM.from_pretrained(folder / "model", output_loading_info=True)
missing = list(info["missing_keys"]) + list(info["unexpected_keys"])
model.to(device).train()
no_decay = [p for n, p in model.named_parameters() if n.endswith(".bias") or "norm.weight" in n.lower()]
decay = [p for n, p in model.named_parameters() if not (n.endswith(".bias") or "norm.weight" in n.lower())]
optimizer = torch.optim.AdamW(
    [dict(params=decay, weight_decay=settings["weightDecay"]), dict(params=no_decay, weight_decay=0.0)],
    lr=settings["learningRate"], betas=(settings["adamBeta1"], settings["adamBeta2"]), eps=settings["adamEpsilon"],
)


def forward(arrays):
    ids, mask, labels = (torch.from_numpy(a.astype(np.int64)).to(device) for a in arrays)
    with torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=device != "cpu"):
        logits = model(input_ids=ids, attention_mask=mask).logits
    return torch.nn.functional.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.view(-1)), int((labels >= 0).sum())


position, total, count, losses = 0, 0.0, 0, []
start = time.time()
for batch in meta["batches"]:
    size = batch["rows"] * batch["length"]
    arrays = data[position:position + 3 * size].reshape(3, batch["rows"], batch["length"])
    position += 3 * size
    if batch["factor"] is None:
        model.eval()
        with torch.no_grad():
            loss, labels = forward(arrays)
        total, count = total + loss.item() * labels, count + labels
        continue
    loss, _ = forward(arrays)
    optimizer.zero_grad()
    loss.backward()
    if settings["maxGradNorm"] is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["maxGradNorm"])
    for group in optimizer.param_groups:
        group["lr"] = settings["learningRate"] * batch["factor"]
    optimizer.step()
    losses.append(loss.item())
print(json.dumps(dict(missing=missing, steps=len(losses), perplexity=math.exp(total / count), seconds=time.time() - start, firstLoss=losses[0], lastLoss=losses[-1])))
