"""Recipes of TextAttack 0.3.11 on given texts: textattack_peer.py REQUEST.json

The recipes are TextAttack's own code. Only their resources are replaced by those of Temper: stop words, part-of-speech tags,
WordNet 3.1, the neighbor table, the sentence encoder and the masked language model. Small tables and tags come from a
Node process (resources.mjs); models are loaded with transformers. Prints one JSON line per text, and one per seed.
"""

import functools
import json
import math
import os
import random
import re
import subprocess
import sys
import time

os.environ.setdefault("TEXTATTACK_CACHE_DIR", os.path.join(os.path.dirname(sys.prefix), "textattack-cache"))
request = json.load(open(sys.argv[1], encoding="utf8"))

import nltk  # noqa: E402

# TextAttack downloads its word lists when it is imported.
nltk.download = lambda *_, **__: True


class Node:
    """Answers of Temper's tables, one JSON line per question."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf8")

    @functools.lru_cache(maxsize=None)
    def ask(self, question):
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


node = Node(request["resources"])
stop_words = node.ask(json.dumps({"stopWords": True}))


class StopWordCorpus:
    def words(self, language="english"):
        return stop_words


nltk.corpus.stopwords = StopWordCorpus()


def pos_tag(words, tagset=None, lang="eng"):
    return list(zip(words, node.ask(json.dumps({"tags": list(words)}))))


nltk.pos_tag = pos_tag

import numpy as np  # noqa: E402
import textattack  # noqa: E402
import torch  # noqa: E402
from textattack import Attack  # noqa: E402
from textattack.constraints import Constraint  # noqa: E402
from textattack.constraints.semantics.sentence_encoders import SentenceEncoder  # noqa: E402
from textattack.models.wrappers import HuggingFaceModelWrapper, ModelWrapper  # noqa: E402
from textattack.shared.utils import words_from_text  # noqa: E402
from textattack.transformations import WordSwap  # noqa: E402
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer  # noqa: E402

for text in request["texts"]:
    print(json.dumps(words_from_text(text)))
if not request["recipes"]:
    sys.exit(0)

torch.set_num_threads(request["threads"])
max_length = request["maxLength"]


class Victim(HuggingFaceModelWrapper):
    """Keeps the scores of earlier seeds."""

    known = {}

    def __call__(self, texts):
        new = [text for text in texts if text not in self.known]
        if new:
            for text, row in zip(new, super().__call__(new)):
                self.known[text] = row
        return torch.stack([self.known[text] for text in texts])


class MeanEncoder(SentenceEncoder):
    """The mean of the last hidden states in place of the Universal Sentence Encoder."""

    def __init__(self, threshold=0.8, large=False, metric="angular", **kwargs):
        super().__init__(threshold=threshold, metric=metric, **kwargs)
        self.tokenizer = AutoTokenizer.from_pretrained(request["encoder"])
        self.model = AutoModel.from_pretrained(request["encoder"]).float().eval()

    def encode(self, sentences):
        vectors = []
        for start in range(0, len(sentences), 32):
            batch = self.tokenizer(
                list(sentences[start : start + 32]),
                padding=True,
                truncation=True,
                max_length=max_length,
                return_tensors="pt",
            )
            with torch.no_grad():
                hidden = self.model(**batch).last_hidden_state
            mask = batch["attention_mask"].unsqueeze(-1)
            vectors.append((hidden * mask).sum(1) / mask.sum(1))
        return torch.cat(vectors)


class Neighbors(WordSwap):
    """The table of neighbors in place of counter-fitted vectors."""

    def __init__(self, max_candidates=15, embedding=None, **kwargs):
        super().__init__(**kwargs)
        self.max_candidates = max_candidates

    def _get_replacement_words(self, word):
        return node.ask(json.dumps({"neighbors": word}))[: self.max_candidates]


class Synonyms(WordSwap):
    """WordNet 3.1 in place of 3.0."""

    def __init__(self, language="eng"):
        super().__init__()

    def _get_replacement_words(self, word):
        return node.ask(json.dumps({"lemmas": word}))


class SynonymsOfTag(WordSwap):
    """WordNet synonyms of the same part of speech in place of HowNet's sememes."""

    def _get_transformations(self, current_text, indices_to_modify):
        # The tags are those of the original text; replacements keep the number of words.
        original = current_text
        while "previous_attacked_text" in original.attack_attrs:
            original = original.attack_attrs["previous_attacked_text"]
        tags = node.ask(json.dumps({"partsOfSpeech": original.words}))
        texts = []
        for i in indices_to_modify:
            word = current_text.words[i]
            lemmas = node.ask(json.dumps({"lemmas": word, "partOfSpeech": tags[i]}))
            texts.extend(current_text.replace_word_at_index(i, lemma) for lemma in lemmas if lemma != word)
        return texts


class NoVectors(Constraint):
    """The table has no vectors, and words without a vector pass."""

    def __init__(self, *_, **__):
        super().__init__(True)

    def _check_constraint(self, transformed_text, reference_text):
        return True


def write_confusables():
    """Restores the file of homoglyphs that the wheel lacks, with Temper's table."""
    folder = os.path.join(os.path.dirname(textattack.__file__), "shared")
    with open(os.path.join(folder, "intentional_homoglyphs.txt"), "w", encoding="utf-8-sig") as file:
        for key, value in node.ask(json.dumps({"confusables": True})):
            file.write(f"{ord(key):04X} ; {ord(value):04X} #* ( {key} → {value} )\n")


def load_recipe(module, name):
    recipe = getattr(__import__(f"textattack.attack_recipes.{module}", fromlist=[name]), name)
    namespace = sys.modules[recipe.__module__].__dict__
    replaced = {
        "UniversalSentenceEncoder": MeanEncoder,
        "WordSwapEmbedding": Neighbors,
        "WordSwapWordNet": Synonyms,
        "WordSwapHowNet": SynonymsOfTag,
        "WordEmbeddingDistance": NoVectors,
    }
    for key, value in replaced.items():
        if key in namespace:
            namespace[key] = value
    if "WordSwapMaskedLM" in namespace:
        original = namespace["WordSwapMaskedLM"]

        def create(*_, **settings):
            return original(
                **{**settings, "masked_language_model": request["maskedLm"], "max_length": max_length}
            )

        namespace["WordSwapMaskedLM"] = create
    return recipe


recipes = {
    "pwws": ("pwws_ren_2019", "PWWSRen2019"),
    "deepwordbug": ("deepwordbug_gao_2018", "DeepWordBugGao2018"),
    "pruthi": ("pruthi_2019", "Pruthi2019"),
    "input-reduction": ("input_reduction_feng_2018", "InputReductionFeng2018"),
    "textbugger": ("textbugger_li_2018", "TextBuggerLi2018"),
    "leap": ("leap_2023", "LEAP2023"),
    "textfooler": ("textfooler_jin_2019", "TextFoolerJin2019"),
    "pso": ("pso_zang_2020", "PSOZang2020"),
    "bae": ("bae_garg_2019", "BAEGarg2019"),
    "bert-attack": ("bert_attack_li_2020", "BERTAttackLi2020"),
}


def build_attack(victim, name, options):
    if name in ("textbugger", "bad-characters"):
        write_confusables()
    if name == "bad-characters":
        # The recipe has targeted goals only. With two classes, the other class is the target.
        from textattack.goal_functions import UntargetedClassification
        from textattack.search_methods import DifferentialEvolution
        from textattack.transformations import WordSwapHomoglyphSwap

        search = DifferentialEvolution(popsize=options["population"], maxiter=options["iterations"], max_perturbs=1)
        return Attack(UntargetedClassification(victim), [], WordSwapHomoglyphSwap(), search)
    attack = load_recipe(*recipes[name]).build(victim)
    for own, other in (("population", "pop_size"), ("iterations", "max_iters")):
        if own in options:
            setattr(attack.search_method, other, options[own])
    return attack


class StableArray(np.ndarray):
    """Equal importance keeps the order of the text; NumPy's default order is undefined."""

    def argsort(self, *_, **__):
        return np.asarray(self).argsort(kind="stable")


class StableNumpy:
    """NumPy for the module that ranks words."""

    def __getattr__(self, name):
        return getattr(np, name)

    def array(self, values):
        return np.array(values).view(StableArray)


sys.modules["textattack.search_methods.greedy_word_swap_wir"].np = StableNumpy()



class WordVictim(ModelWrapper):
    """A logistic regression over words, which every language computes alike."""

    model = None
    known = {}

    def __call__(self, texts):
        weigh = request["weights"].get
        sums = [sum((weigh(word, 0) for word in re.findall("[a-z]+", text.lower())), request["bias"]) for text in texts]
        return torch.tensor([[1 / (1 + math.exp(value)), 1 / (1 + math.exp(-value))] for value in sums])


def load_victim():
    if "weights" in request:
        return WordVictim()
    tokenizer = AutoTokenizer.from_pretrained(request["model"])
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    tokenizer.model_max_length = max_length
    return Victim(AutoModelForSequenceClassification.from_pretrained(request["model"]).eval(), tokenizer)


victim = load_victim()
for part in request["recipes"]:
    name = part["recipe"]
    attack = build_attack(victim, name, part["options"])
    victim.known.clear()
    for seed in part["seeds"]:
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        start = time.process_time()
        for example in request["examples"]:
            result = attack.attack(example["text"], example["label"])
            line = {
                "outcome": type(result).__name__.replace("AttackResult", "").lower(),
                "queries": result.num_queries,
                "text": result.perturbed_text(),
            }
            print(json.dumps({"recipe": name, "seed": seed, "id": example["id"], **line}), flush=True)
        print(json.dumps({"recipe": name, "seed": seed, "seconds": time.process_time() - start}), flush=True)
node.process.stdin.close()
