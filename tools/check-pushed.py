"""Prints the probabilities that transformers computes from model folders. Called by check-pushed.mjs with a JSON request on
standard input: { folders: [{ folder, ids }], texts }. With ids, the tokens of the texts are given, and no tokenizer may load.
A family or a tokenizer class that this version of transformers does not have gives null."""
import json
import sys

import torch
import transformers

request = json.load(sys.stdin)
answers = []
for item in request["folders"]:
    folder, ids = item["folder"], item["ids"]
    tokenizer = None
    try:
        model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    except (ValueError, KeyError) as error:
        print(f"{folder}: {str(error)[:200]}", file=sys.stderr)
        answers.append(None)
        continue
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    except Exception as error:
        print(f"{folder}: {str(error)[:200]}", file=sys.stderr)
    if (tokenizer is None) != (ids is not None):
        answers.append(None if ids is None else [[2, 2, 2]] * len(ids))
        continue
    rows = []
    for start in range(0, len(request["texts"]), 100):
        if tokenizer is None:
            part = [torch.tensor(tokens) for tokens in ids[start : start + 100]]
            pad = torch.nn.utils.rnn.pad_sequence
            batch = {
                "input_ids": pad(part, batch_first=True, padding_value=model.config.pad_token_id),
                "attention_mask": pad([torch.ones_like(tokens) for tokens in part], batch_first=True),
            }
        else:
            batch = tokenizer(request["texts"][start : start + 100], padding=True, truncation=True, return_tensors="pt")
        with torch.no_grad():
            rows += model(**batch).logits.softmax(-1).tolist()
    answers.append(rows)
json.dump({"version": transformers.__version__, "answers": answers}, sys.stdout)
