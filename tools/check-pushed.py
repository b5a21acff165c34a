"""Prints the probabilities that transformers computes from model folders. Called by check-pushed.mjs with a JSON request on
standard input: { folders, texts }. A family or a tokenizer class that this version of transformers does not have gives null."""
import json
import sys

import torch
import transformers

request = json.load(sys.stdin)
answers = []
for folder in request["folders"]:
    try:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    except (ValueError, KeyError) as error:
        print(f"{folder}: {str(error)[:200]}", file=sys.stderr)
        answers.append(None)
        continue
    rows = []
    for start in range(0, len(request["texts"]), 100):
        batch = tokenizer(request["texts"][start : start + 100], padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            rows += model(**batch).logits.softmax(-1).tolist()
    answers.append(rows)
json.dump({"version": transformers.__version__, "answers": answers}, sys.stdout)
