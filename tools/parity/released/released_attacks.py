"""The attacks of RIFT's code on a victim whose answers are hashes of the texts."""

import hashlib
import math
import re
import types

import numpy as np
import torch
from released_helpers import import_file, replace_modules


def create_scorer(texts, unknown):
    """Two probabilities that depend on the text only. compare-attacks.mjs has the same function."""

    def score(text):
        if text in texts:
            return [1 / (1 + math.exp(-4)), 1 / (1 + math.exp(4))]
        digest = hashlib.sha256(re.sub(unknown, "[UNK]", text).encode()).digest()
        weights = [0.01 + int.from_bytes(digest[4 * i : 4 * i + 4], "little") / 2**32 for i in range(2)]
        weights[0] *= 20
        return [weight / (weights[0] + weights[1]) for weight in weights]

    return score


def run_pwws(folder, request):
    """The final text of each attack, and whether it fools the victim."""
    replace_modules(nltk={}, spacy={}, modified_tokenizers={"get_tokenizers": None})
    replace_modules(data={"split_imdb_files": None, "split_snli_files": None, "get_substitution_dict": lambda _: request["table"]})
    module = import_file(folder / "attack/attack_algorithms/pwws_attack.py", "released_pwws")
    score = create_scorer(request["texts"], r"w3\d")
    guide = types.SimpleNamespace(predict_prob=lambda text: np.array(score(text)), predict_class=lambda text: np.argmax(score(text)))
    results = []
    for text in request["texts"]:
        options = types.SimpleNamespace(substitution_dict_path=None)
        final, predicted, *_ = module.pwws_attack_cls(options, text, 0, guide, 300, request["table"])
        results.append({"text": final, "isSuccess": bool(predicted != 0)})
    return results


def run_genetic(folder, request, surface):
    """Every queried text of each attack, and whether it succeeds. Random numbers come from compare.mjs."""
    replace_modules(modified_tokenizers={"get_tokenizers": None}, data={"split_imdb_files": None, "split_snli_files": None})
    module = import_file(folder / "attack/attack_algorithms/genetic_attack.py", "released_genetic")
    score, results = create_scorer(request["texts"], r"(?!)"), []
    for text in request["texts"]:
        # One stream for parents and crossover, one for the words that mutate.
        mixing, mutation = iter(request["mixing"]), iter(request["mutation"])
        queries, sent = [], []

        def sample(items, _):
            if isinstance(items[0], int):
                return [items[int(next(mutation) * len(items))]]
            return [items[0] if items[0] == items[1] or next(mixing) < 0.5 else items[1]]

        def choice(items, p):
            point = next(mixing)
            for index, probability in zip(items, p):
                point -= probability
                if point < 0:
                    return index
            return items[-1]

        def query(words, _):
            queries.append(words)
            return torch.tensor([math.log(each) for each in score(words)], dtype=torch.float64)

        module.random = types.SimpleNamespace(seed=lambda _: None, sample=sample)
        choose, np.random.choice = np.random.choice, choice
        adversary = module.GeneticAdversary(types.SimpleNamespace(rand_seed=0), surface, request["iterations"], request["population"])
        connection = types.SimpleNamespace(send=sent.append, close=lambda: None)
        adversary.attack_binary_classification(connection, types.SimpleNamespace(query=query), text, [1, 0])
        np.random.choice = choose
        results.append({"queries": queries, "isSuccess": sent == [0]})
    return results


def run_attacks(folder, request):
    """PWWS, Genetic, and the substitutes that language-model scores allow."""
    surfaces = import_file(folder / "attack/attack_surface.py", "released_surface")
    constrained = surfaces.LMConstrainedAttackSurface.from_files(request["tablePath"], request["scoresPath"])
    unconstrained = surfaces.WordSubstitutionAttackSurface(request["table"], {})
    return {
        "pwws": run_pwws(folder, request),
        "genetic": run_genetic(folder, request, unconstrained),
        "allowed": [constrained.get_swaps(text.split()) for text in request["texts"]],
    }
