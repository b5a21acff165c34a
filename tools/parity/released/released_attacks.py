"""The attacks of RIFT's code on a victim whose answers are hashes of the texts."""

import hashlib
import math
import types
from pathlib import Path

import numpy as np
import torch
from released_helpers import import_file, load_data, replace_modules

max_length = 80


class Victim:
    """A model whose logits depend on the tokens only, behind the authors' tokenizer. compare-attacks.mjs has the same."""

    device = "cpu"

    def __init__(self, folder, request):
        self.original = request["original"]
        self.vocabulary = Path(request["vocabularyPath"]).read_text().split("\n")
        _, self.tokenize, _ = load_data(folder, "bert", request["vocabularyPath"])
        encoded = [self.tokenize(" [SEP] ".join(texts), max_length) for texts in request["inputs"]]
        self.originals = {self.read(each["input_ids"], each["attention_mask"]) for each in encoded}
        self.queries = []

    def read(self, ids, mask):
        words = [self.vocabulary[each] for each, is_read in zip(ids, mask) if is_read]
        # Without the special tokens at both ends.
        return " ".join(words[1:-1])

    def __call__(self, ids, mask):
        text = self.read(ids[0].tolist(), mask[0].tolist())
        self.queries.append(text)
        if text in self.originals:
            logits = self.original
        else:
            digest = hashlib.sha256(text.encode()).digest()
            weights = [0.01 + int.from_bytes(digest[4 * i : 4 * i + 4], "little") / 2**32 for i in range(len(self.original))]
            logits = [math.log(20 * weight if i == 0 else weight) for i, weight in enumerate(weights)]
        return torch.tensor([logits], dtype=torch.float64)


def run_pwws(folder, request, key):
    """The final text of each attack, and whether it fools the victim."""
    victim = Victim(folder, request[key])
    replace_modules(nltk={}, spacy={})
    module = import_file(folder / "attack/attack_algorithms/pwws_attack.py", "released_pwws")
    options = types.SimpleNamespace(substitution_dict_path=request["tablePath"])
    results = []
    for texts in request[key]["inputs"]:
        if len(texts) == 1:
            guide = module.WrappedModelClsForPWWS("imdb", max_length, victim, victim.tokenize)
            attack = module.pwws_attack_cls
        else:
            guide = module.WrappedModelNliForPWWS("snli", max_length, victim, victim.tokenize, "bert")
            attack = module.pwws_attack_nli
        *final, predicted, _, _ = attack(options, *texts, 0, guide, max_length, request["table"])
        results.append({"texts": final, "isSuccess": bool(predicted != 0)})
    return results


class Connection:
    """Answers the queries of an attack, and keeps its result: 0 if it succeeds."""

    def __init__(self, victim):
        self.victim, self.result = victim, None

    def send(self, message):
        if isinstance(message, tuple):
            self.answer = self.victim(*message)
        else:
            self.result = message

    def recv(self):
        return self.answer

    def close(self):
        pass


def run_genetic(folder, request, key, surface):
    """A hash of everything that the victim has read in each attack, and whether it succeeds. Random numbers come from compare.mjs."""
    victim, results = Victim(folder, request[key]), []
    module = import_file(folder / "attack/attack_algorithms/genetic_attack.py", "released_genetic")
    for texts in request[key]["inputs"]:
        # One stream for parents and crossover, one for the words that mutate.
        mixing, mutation = iter(request["mixing"]), iter(request["mutation"])

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

        module.random = types.SimpleNamespace(seed=lambda _: None, sample=sample)
        choose, np.random.choice = np.random.choice, choice
        adversary = module.GeneticAdversary(types.SimpleNamespace(rand_seed=0), surface, request["iterations"], request["population"])
        if len(texts) == 1:
            wrapped, attack = module.WrappedModelCls(victim.tokenize, max_length), adversary.attack_binary_classification
        else:
            wrapped, attack = module.WrappedModelNli(victim.tokenize, max_length, "bert"), adversary.attack_nli
        connection, victim.queries = Connection(victim), []
        attack(connection, wrapped, *texts, np.eye(len(request[key]["original"]))[0])
        np.random.choice = choose
        queries = hashlib.sha256("\n".join(sorted(victim.queries)).encode()).hexdigest()
        results.append({"queries": queries, "isSuccess": connection.result == 0})
    return results


def run_attacks(folder, request):
    """PWWS and Genetic on texts and on pairs, and the substitutes that language-model scores allow."""
    surfaces = import_file(folder / "attack/attack_surface.py", "released_surface")
    constrained = surfaces.LMConstrainedAttackSurface.from_files(request["tablePath"], request["scoresPath"])
    unconstrained = surfaces.WordSubstitutionAttackSurface(request["table"], {})
    return {
        **{key: run_pwws(folder, request, key) for key in ("pwws", "pwwsOnPairs")},
        **{key: run_genetic(folder, request, key, unconstrained) for key in ("genetic", "geneticOnPairs")},
        "allowed": [constrained.get_swaps(text.split()) for text in request["texts"]],
    }
