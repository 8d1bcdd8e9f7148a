"""Small tables, texts and models under the names that the documentation gives to the files of its readers."""

import csv
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

from linda.middles.ngrams import TrigramModel
from linda.model import LindaModel
from linda.model.checkpoint import EMBEDDED
from tiny_encoder import save_tiny_bert
from tiny_models import language_model_of_sentences, save_tiny_bart, save_tiny_base

PEOPLE = ("the baker", "the captain", "a doctor", "our teacher", "the king")
PLACES = ("the river", "Paris", "the harbour", "New York")
SENTENCES = [f"In 19{i}0, {person} came to {place}." for i, person in enumerate(PEOPLE) for place in PLACES]
CLASSES = {"person": "Who saw {} at {}?", "place": "Where did {} leave {}?", "rare": "When will {} see {}?"}
TRAIN, TEST = (
    [
        {"text": question.format(person, place), "label": label, "label_coarse": label, "label_fine": label[0]}
        for person in PEOPLE
        for place in places
        for label, question in CLASSES.items()
    ]
    for places in (PLACES[:2], PLACES[2:3])
)


def _csv(rows: list[dict[str, Any]]) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        with file.open("w", encoding="utf-8", newline="") as target:
            writer = csv.DictWriter(target, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    return write


def _lines(lines: list[str]) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        opened: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open}
        with opened.get(file.suffix, open)(file, "wt", encoding="utf-8") as target:
            target.writelines(f"{line}\n" for line in lines)

    return write


def _json_lines(rows: list[dict[str, Any]]) -> Callable[[Path], None]:
    return _lines([json.dumps(row) for row in rows])


def _tasks(folder: Path) -> None:
    """What `linda bench --data` reads: the same rows for every task."""
    validation = ("validation", "validation_matched", "validation_mismatched")
    for task in ("trec", "sst2", "rte", "qnli", "mnli", "womens_clothing_reviews", "yelp_cuisine_polarity"):
        (folder / task).mkdir(parents=True)
        for split in ("train", "test", *validation):
            rows = TRAIN if split == "train" else TEST
            more = [{**row, "text_pair": "It was late.", "domain": "ab"[n % 2]} for n, row in enumerate(rows)]
            _json_lines(more)(folder / task / f"{split}.jsonl.gz")


def _tiny_linda(folder: Path) -> None:
    base = save_tiny_base(folder.with_name(f"{folder.name}-base"))
    LindaModel.from_seq2seq(base, max_length=48).save_pretrained(folder)


def _language_model(folder: Path) -> None:
    for part in language_model_of_sentences(SENTENCES):
        part.save_pretrained(folder)


_SEVERAL = [
    {"text": row["text"], "label": json.dumps([row["label"], "question"][: 1 + n % 2])} for n, row in enumerate(TRAIN)
]

# What a name of the documentation stands for. Names of the hub are folders here: no test may use the network.
INPUTS: dict[str, Callable[[Path], object]] = {
    "train.csv": _csv(TRAIN),
    "test.csv": _csv(TEST),
    "my.csv": _csv(TRAIN),
    "my_test.csv": _csv(TEST),
    "several.csv": _csv(_SEVERAL),
    "reviews.csv": _csv(TRAIN),
    "big.jsonl": _json_lines(TRAIN[:12]),
    "data/big.jsonl": _json_lines(TRAIN[:12]),
    "pairs.tsv": _lines(["a\tb", "Who saw the king?\tWhere is Paris?"]),
    "more.txt": _lines(SENTENCES),
    "names.txt": _lines(["the king", "Paris"]),
    "sentences.txt.xz": _lines(SENTENCES),
    "heldout.txt.xz": _lines(SENTENCES),
    "held-out.txt": _lines(SENTENCES),
    "german.txt.xz": _lines(SENTENCES),
    "german-held-out.txt": _lines(SENTENCES),
    "tickets.txt": _lines(SENTENCES),
    "trec.jsonl.gz": _json_lines(TRAIN),
    "trigrams.safetensors": lambda file: TrigramModel.build(SENTENCES, progress=False).save(file),
    "tasks": _tasks,
    "src/linda/embedded": lambda folder: folder.symlink_to(EMBEDDED),
    "MODEL": _tiny_linda,
    "my-base": save_tiny_base,
    "Helsinki-NLP/opus-mt-fr-en": save_tiny_base,
    "Helsinki-NLP/opus-mt-fr-de": save_tiny_base,
    "facebook/bart-large": save_tiny_bart,
    "smollm2-135m": _language_model,
    "SMOLLM2_135M": _language_model,
    "all-minilm-l6-v2": save_tiny_bert,
    "sentence-transformers/all-MiniLM-L6-v2": save_tiny_bert,
    "all-mpnet-base-v2": save_tiny_bert,
}


def write_input(name: str) -> None:
    """Write what the name stands for into the current folder, unless it is there."""
    place = Path(name)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        INPUTS[name](place)
