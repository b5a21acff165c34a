"""bench_hf.py STEPS SPEC…: the strongest PyTorch programs that a user can write in a few lines, on the GPU; prints one
JSON line per SPEC. SPEC: MODE:SIZE:ROWS:LENGTH:PADDED with MODE
  eager, compile, reduce-overhead   a training step with transformers: autocast bf16, fused AdamW, clipping
  graph, graph-compile              the same, captured as one CUDA graph
  batched, compiled                 bf16 inference of a batch
  queries                           inference, one text at a time
  peak                              a large bf16 matrix product"""
import json, sys, time
import torch
from transformers import BertConfig, BertForSequenceClassification

SIZES = {"tiny": (2, 64, 4), "minilm": (6, 384, 12), "base": (12, 768, 12), "large": (24, 1024, 16)}
steps = int(sys.argv[1])
device = "cuda" if torch.cuda.is_available() else "cpu"
synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
torch.set_float32_matmul_precision("high")


def median_ms(run, count, warm):
    for _ in range(warm):
        run()
    synchronize()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(count):
            run()
        synchronize()
        times.append((time.perf_counter() - start) * 1000 / count)
    return sorted(times)[2]


def peak_gib():
    return torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0


def peak():
    a, b = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    return {"tflops": 2 * 8192**3 / median_ms(lambda: a @ b, 10, 5) / 1e9, "torch": torch.__version__}


def model_and_batch(size, rows, length, padded):
    layers, hidden, heads = SIZES[size]
    config = BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden, num_labels=2)
    ids = torch.randint(1000, 30000, (rows, length), device=device)
    mask = torch.ones(rows, length, device=device, dtype=torch.long)
    if padded:
        for i in range(rows):
            mask[i, length - (i * 7) % (length // 2):] = 0
    return BertForSequenceClassification(config).to(device), ids, mask, torch.arange(rows, device=device) % 2


def train(way, size, rows, length, padded):
    is_captured = way.startswith("graph")
    model, ids, mask, labels = model_and_batch(size, rows, length, padded)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.01, fused=True, capturable=is_captured)
    compile_mode = {"compile": "default", "graph-compile": "default", "reduce-overhead": "reduce-overhead"}.get(way)
    forward = torch.compile(model, mode=compile_mode) if compile_mode else model
    attention_mask = mask if padded else None
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()

    def step():
        with torch.autocast(device, torch.bfloat16):
            loss = forward(input_ids=ids, attention_mask=attention_mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=not is_captured)

    run = step
    if is_captured:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(5):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        run = graph.replay
    return {"ms": median_ms(run, steps, 10), "peakGiB": peak_gib()}


def infer(mode, size, rows, length, padded):
    model, ids, mask, _ = model_and_batch(size, rows, length, padded)
    model = model.bfloat16().eval()
    forward = torch.compile(model, mode="reduce-overhead") if mode == "compiled" else model
    with torch.no_grad():
        ms = median_ms(lambda: forward(input_ids=ids, attention_mask=mask).logits.softmax(-1).float().cpu(), 20, 8)
    return {"ms": ms, "textsPerSecond": 1000 * rows / ms, "tokensPerSecond": 1000 * int(mask.sum()) / ms, "peakGiB": peak_gib()}


def queries(size, length):
    model, ids, mask, _ = model_and_batch(size, 1, length, False)
    model.eval()
    with torch.no_grad(), torch.autocast(device, torch.bfloat16):
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
        elif mode in ("batched", "compiled"):
            found = infer(mode, size, int(rows), int(length), padded == "1")
        else:
            found = train(mode, size, int(rows), int(length), padded == "1")
    except Exception as error:
        found = {"failed": (str(error).strip().split("\n")[-1] or repr(error))[:200]}
    print(json.dumps({"spec": spec, **found}), flush=True)
    if device == "cuda":
        torch._dynamo.reset()
        torch.cuda.empty_cache()
