"""The tokens and substitutes that RIFT's code gives RoBERTa's words."""

import types

import numpy as np
from released_helpers import load_data, tokenize_table


def run_words(folder, request):
    """The tokens of each text and pair, the substitutes at each token, and the pieces of each word."""
    data, tokenizer, tokenize_substitutes = load_data(folder, "roberta", *request["paths"])
    common = (tokenize_table(tokenize_substitutes, request["table"]), request["length"], tokenizer, None)
    texts, pairs = request["texts"], request["pairs"]
    labels = np.eye(2)[np.zeros(max(len(texts), len(pairs)), int)]
    opt = types.SimpleNamespace(plm_type="roberta")
    singles = data.ImdbData(opt, texts, labels[: len(texts)], *common)
    joined = data.SnliData(opt, *[list(each) for each in zip(*pairs)], labels[: len(pairs)], *common)
    results = []
    for words, (ids, _, substitutes, mask, attention) in zip([*texts, *map(" ".join, pairs)], [*singles, *joined]):
        kept = attention.bool()
        results.append({
            "tokens": ids[kept].tolist(), "pieces": [len(each) for each in tokenize_substitutes(words.split())["input_ids"]],
            "substitutes": [row[is_used.bool()].tolist()[1:] for row, is_used in zip(substitutes[kept], mask[kept])],
        })  # fmt: skip
    return results
