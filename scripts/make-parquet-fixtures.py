"""Writes the small Parquet files under tests/fixtures/tasks: python scripts/make-parquet-fixtures.py (needs pyarrow)."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(__file__).parent.parent / "tests" / "fixtures" / "tasks"
features = {
    "sentence": {"dtype": "string", "_type": "Value"},
    "label": {"names": ["negative", "positive"], "_type": "ClassLabel"},
    "idx": {"dtype": "int32", "_type": "Value"},
}
described = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


def write(name, rows, labels, metadata, compression):
    table = pa.table(
        {
            "sentence": pa.array(rows, pa.string()),
            "label": pa.array(labels, pa.int64()),
            "idx": pa.array(range(len(rows)), pa.int32()),
            "origin": pa.array([{"site": "a", "tags": ["x"]}] * len(rows)),
        }
    )
    pq.write_table(table.replace_schema_metadata(metadata), folder / name, compression=compression)


train = [f"sentence number {i} is {'good' if i % 2 else 'bad'}" for i in range(40)]
write("train.parquet", train, [i % 2 for i in range(40)], described, "zstd")
write("validation.parquet", ["café fine", "dull 🎬", "so so"], [1, 0, 0], described, "snappy")
write("test.parquet", ["unseen one", "unseen two"], [-1, -1], described, "gzip")
# Without label names, and with a missing text.
write("plain.parquet", ["good", None, "bad", "worse"], [1, 0, 0, 0], None, "brotli")


def write_hub(name, columns, names):
    """Writes a file with the columns of a dataset on the hub. The last column is the label."""
    kinds = {"label": {"names": names, "_type": "ClassLabel"}}
    info = {"info": {"features": {column: kinds.get(column, {"dtype": "string", "_type": "Value"}) for column in columns}}}
    arrays = {
        column: pa.array(values, pa.int64() if column == "label" else pa.string()) for column, values in columns.items()
    }
    table = pa.table(arrays).replace_schema_metadata({b"huggingface": json.dumps(info).encode()})
    pq.write_table(table, folder / "hub" / f"{name}.parquet", compression="snappy")


(folder / "hub").mkdir(exist_ok=True)
nli = ["entailment", "neutral", "contradiction"]
entailment = ["entailment", "not_entailment"]


def pairs(first, second, labels):
    count = len(labels)
    return {first: [f"first {i}" for i in range(count)], second: [f"second {i}" for i in range(count)], "label": labels}


write_hub("imdb", {"text": ["Good.<br /><br />Really.", "Bad film"] * 6, "label": [1, 0] * 6}, ["neg", "pos"])
write_hub("snli", pairs("premise", "hypothesis", [0, -1, 2, 1]), nli)
write_hub("mnli", pairs("premise", "hypothesis", [1, 2, 0] * 10), nli)
write_hub("rte", pairs("sentence1", "sentence2", [1, 0] * 10), entailment)
write_hub("qnli", pairs("question", "sentence", [1, 0] * 10), entailment)
write_hub("qqp", pairs("question1", "question2", [1, 0] * 10), ["not_duplicate", "duplicate"])
write_hub("reordered", {"sentence": ["good", "bad"], "label": [0, 1]}, ["positive", "negative"])
# Four sentences per class, cut into the three parts of the hub.
for part, rows in {"train": [0, 1], "validation": [2], "test": [3]}.items():
    texts = [f"{name} sentence {i}" for name in ["pos", "neg"] for i in rows]
    write_hub(f"mr-{part}", {"text": texts, "label": [1] * len(rows) + [0] * len(rows)}, ["neg", "pos"])
