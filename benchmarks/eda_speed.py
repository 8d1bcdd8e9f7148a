#!/usr/bin/env python3
"""Speed of EDA compared to public libraries: the same 1,000 sentences, one new text each, in one run.

    python benchmarks/eda_speed.py [FILE]     # in an environment with any of nlpaug, textattack and textaugment

FILE: a text file with one sentence per line; by default, random sentences.
Libraries that are not installed are skipped. They need NLTK's WordNet and stop words (and nlpaug a tagger); loading is
not timed. Each is called as its documentation shows for one new text per text.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from pathlib import Path

ROUNDS = 3
WORDS = """the a of in to was is with on by from that after first large small old river city film war school music
company team game house water world history found made began built called won played wrote good new great early"""
NAMES = ["France", "Tokyo", "Henry", "London", "Mary", "Africa"]


def sentences(count: int = 1000) -> list[str]:
    """Return random sentences of 8 to 24 English words, which is sufficient for timing."""
    draw = random.Random(7)

    def sentence() -> str:
        words = [
            draw.choice(NAMES) if draw.random() < 0.1 else draw.choice(WORDS.split())
            for _ in range(draw.randint(8, 24))
        ]
        return (" ".join(words) + ".").capitalize()

    return [sentence() for _ in range(count)]


def ours() -> Callable[[list[str]], object]:
    from linda.methods.eda import Eda

    eda = Eda()
    return lambda texts: eda.texts(texts, None, None, range(len(texts)))


def textaugment() -> Callable[[list[str]], object]:
    from textaugment import EDA

    eda = EDA(random_state=1)
    changes = [eda.synonym_replacement, eda.random_insertion, eda.random_swap, eda.random_deletion]
    return lambda texts: [changes[number % 4](text) for number, text in enumerate(texts)]


def nlpaug() -> Callable[[list[str]], object]:
    import nlpaug.augmenter.word as word

    # nlpaug has no insertion of synonyms: three of the four changes.
    changes = [
        word.SynonymAug(aug_src="wordnet"),
        word.RandomWordAug(action="swap"),
        word.RandomWordAug(action="delete"),
    ]
    return lambda texts: [changes[number % 3].augment(text) for number, text in enumerate(texts)]


def textattack() -> Callable[[list[str]], object]:
    from textattack.augmentation import EasyDataAugmenter

    eda = EasyDataAugmenter(pct_words_to_swap=0.1, transformations_per_example=1)
    return lambda texts: [eda.augment(text) for text in texts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?")
    file = parser.parse_args().file
    texts = file.read_text(encoding="utf-8").splitlines()[:1000] if file else sentences()
    words = sum(len(text.split()) for text in texts)
    print(f"{len(texts)} sentences, {words / len(texts):.1f} words each, best of {ROUNDS}")
    for make in (ours, textaugment, nlpaug, textattack):
        name = "linda" if make is ours else make.__name__
        try:
            change = make()
            change(texts[:20])  # warm up: tables are read with the first text
        except Exception as error:
            print(f"{name:12} skipped: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
            continue
        seconds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            change(texts)
            seconds.append(time.perf_counter() - started)
        print(f"{name:12} {1000 * min(seconds):9.1f} ms   {len(texts) / min(seconds):9,.0f} sentences/s")


if __name__ == "__main__":
    main()
