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
