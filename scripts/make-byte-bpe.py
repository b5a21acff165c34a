"""Trains the small byte-level BPE tokenizer of the tests (tests/fixtures/roberta-tiny) on the text below.

Run manually: python scripts/make-byte-bpe.py
"""

import itertools
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

NOUNS = "film story actor ending review picture teacher student garden river model weight layer gradient sentence answer".split()
ADJECTIVES = "wonderful terrible quiet boring honest clever broken robust fragile informative beautiful ordinary".split()
VERBS = "loves hates watches follows changes repeats explains forgets remembers improves describes attacks".split()
EXTRAS = """
I don't think they're ready, but we'll see; it's what I've said since 1999. You'd be surprised: she isn't, he wasn't!
The quick reply came at 10:30, cost 3.50 euros and filled 128 lines... "Nothing," he wrote, "was ever finished (or begun)."
Could the cinema, the theatre and the television survive another winter without their most faithful viewers? Hardly -- or never.
A naïve café owner in Zürich sells crème brûlée, jalapeños and smørrebrød; señor Ångström prefers sauerkraut with Füße on the table.
Мы читаем книги и смотрим фильмы. Η ταινία ήταν υπέροχη. 映画はとても面白かった。这部电影很好看。 😀 🎉 👍🏽 ❤️ 👩‍👩‍👧
def train(step, rate=0.001): return [x * rate for x in step if x > 0] # a comment\twith a tab\n    and an indented line
Unbelievable misunderstandings, counterproductive oversimplifications, internationally acknowledged characteristics.
""".strip().splitlines()


def sentences():
    for number, (noun, adjective, verb) in enumerate(itertools.product(NOUNS, ADJECTIVES, VERBS)):
        other = NOUNS[(number * 7 + 3) % len(NOUNS)]
        yield f"The {adjective} {noun} {verb} every {other}, and nobody in the {ADJECTIVES[number % 5]} town knows why number {number % 97}."
        if number % 40 == 0:
            yield from EXTRAS


def main():
    folder = pathlib.Path(__file__).parent.parent / "tests" / "fixtures" / "roberta-tiny"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1499,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences(), trainer)
    # RoBERTa's mask is the last token and includes the space before it.
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    print(tokenizer.get_vocab_size(), "tokens;", "<mask> =", tokenizer.token_to_id("<mask>"))


if __name__ == "__main__":
    main()
