"""ONNX Runtime's own pipeline and OpenVINO, for tools/bench/inference.mjs.

    prepare MODEL FOLDER: exports a classifier of transformers, optimizes it with ONNX Runtime's tools, and quantizes it with
        ONNX Runtime's quantize_dynamic and with NNCF. FOLDER/texts.json has the texts as tokens.
    run onnxruntime|openvino fp32|int8 FOLDER THREADS: classifies all texts for each line of standard input.
"""

import json
import os
import sys
import time

import numpy as np

# Sizes of 8 to 64 are about equally fast.
BATCH_SIZE = 32


def read_batches(folder):
    """Texts of similar length, padded."""
    with open(os.path.join(folder, "texts.json")) as file:
        data = json.load(file)
    order = sorted(range(len(data["texts"])), key=lambda i: len(data["texts"][i]))
    batches = []
    for start in range(0, len(order), BATCH_SIZE):
        texts = [data["texts"][i] for i in order[start : start + BATCH_SIZE]]
        length = max(map(len, texts))
        ids = np.full((len(texts), length), data["padId"], np.int64)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        batches.append({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
    return batches, np.array([data["labels"][i] for i in order])


def prepare(model_folder, folder):
    path = lambda name: os.path.join(folder, name)
    if os.path.exists(path("done")):
        return
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from transformers import AutoModelForSequenceClassification

    model = AutoModelForSequenceClassification.from_pretrained(model_folder, attn_implementation="eager").eval()
    batches, _ = read_batches(folder)
    names = list(batches[0])
    torch.onnx.export(
        model,
        (),
        path("exported.onnx"),
        kwargs={name: torch.from_numpy(batches[0][name][:2]) for name in names},
        input_names=names,
        output_names=["logits"],
        dynamic_axes={name: {0: "batch_size", 1: "sequence_length"} for name in names},
        opset_version=14,
        dynamo=False,
    )
    config = model.config
    fused = optimizer.optimize_model(
        path("exported.onnx"),
        model_type="bert",
        num_heads=config.num_attention_heads,
        hidden_size=config.hidden_size,
    )
    fused.save_model_to_file(path("onnxruntime-fp32.onnx"))
    print(fused.get_fused_operator_statistics(), file=sys.stderr)
    # Signed weights with 7 bits, because sums of two 8-bit products overflow on processors without VNNI.
    quantize_dynamic(
        path("onnxruntime-fp32.onnx"),
        path("onnxruntime-int8.onnx"),
        weight_type=QuantType.QInt8,
        reduce_range=True,
        extra_options={"DefaultTensorType": 1},
    )
    import nncf
    import openvino

    converted = openvino.convert_model(path("exported.onnx"))
    openvino.save_model(converted, path("openvino-fp32.xml"), compress_to_fp16=False)
    dataset = nncf.Dataset(batches)
    quantized = nncf.quantize(converted, dataset, model_type=nncf.ModelType.TRANSFORMER, subset_size=len(batches))
    openvino.save_model(quantized, path("openvino-int8.xml"))
    open(path("done"), "w").close()


def load(engine, precision, folder, threads):
    """A function from a batch to its logits."""
    path = os.path.join(folder, f"{engine}-{precision}")
    if engine == "onnxruntime":
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as Temper does
        session = onnxruntime.InferenceSession(f"{path}.onnx", options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_inputs()]
        return lambda batch: session.run(None, {name: batch[name] for name in names})[0]
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(f"{path}.xml", "CPU", settings).create_infer_request()
    return lambda batch: next(iter(request.infer(batch).values())).copy()


def run(engine, precision, folder, threads):
    compute = load(engine, precision, folder, int(threads))
    batches, labels = read_batches(folder)

    def measure():
        start, cpu = time.perf_counter(), time.process_time()
        logits = np.concatenate([compute(batch) for batch in batches])
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        return {"seconds": seconds, "cpu": cpu, "correct": int((logits.argmax(1) == labels).sum())}

    measure()
    print("{}", flush=True)
    for _ in sys.stdin:
        print(json.dumps(measure()), flush=True)


{"prepare": prepare, "run": run}[sys.argv[1]](*sys.argv[2:])
