"""Good files and models, made once. Cases damage copies of them."""

import json
from itertools import pairwise
from pathlib import Path

from tiny_encoder import save_tiny_bert
from tiny_models import MARIAN_SENTENCES, save_tiny_base, save_tiny_marian

TEXTS = [f"{who} {did} {where}" for who in ("the cat", "a man") for did in ("sat", "ran") for where in ("in a city", "on a river", "in the old city")]  # fmt: skip  # noqa: E501

ROWS = [{"text": text, "label": "good" if number % 2 else "bad"} for number, text in enumerate(TEXTS)]


def make_world(folder: Path) -> Path:
    """Files and models by name, in a folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from linda.classifier import TextClassifier
    from linda.model import LindaModel

    folder.mkdir(parents=True, exist_ok=True)
    save_tiny_base(folder / "base")
    LindaModel.from_seq2seq(folder / "base", max_length=24).save_pretrained(folder / "model")
    LindaModel.from_seq2seq(folder / "base", max_length=24, mixing="attention").save_pretrained(folder / "attention")
    (folder / "marian").mkdir()
    save_tiny_marian(folder / "marian")
    save_tiny_bert(folder / "encoder")
    texts, labels = [row["text"] for row in ROWS], [row["label"] for row in ROWS]
    teacher = TextClassifier(folder / "encoder", updates=1, max_length=16)
    teacher.fit(texts, labels).save(folder / "teacher")

    write_csv(folder / "table.csv", ROWS)
    write_csv(folder / "table.tsv", ROWS, "\t")
    write_jsonl(folder / "table.jsonl", ROWS)
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "table.parquet")
    write_jsonl(folder / "pairs.jsonl", [{"a": a, "b": b} for a, b in pairwise(TEXTS)])
    write_csv(folder / "plan.csv", [{"row": 0, "partner": 2, "alpha": 0.5, "seed": 1}])
    (folder / "sentences.txt").write_text("".join(text + "\n" for text in (*TEXTS, *MARIAN_SENTENCES)))
    write_jsonl(folder / "sentences.jsonl", [{"text": text} for text in TEXTS])
    _make_results(folder)
    return folder


def _make_results(folder: Path) -> None:
    """A benchmark, and a table of n-grams, by the commands themselves."""
    from linda.cli import main

    bench = {"train": "table.csv", "test": "table.jsonl", "encoder": "encoder", "output": "results"}
    options = [f"--{name}={folder / value}" for name, value in bench.items()]
    rest = [
        "--methods=vanilla,eda",
        "--seeds=1",
        "--epochs=1",
        "--workers=1",
        "--learning-rate=0.001",
        "--max-length=16",
    ]
    main(["bench", *options, *rest], standalone_mode=False)
    table = ["middles", "table", str(folder / "sentences.txt"), f"--output={folder / 'ngrams.safetensors'}"]
    main(table, standalone_mode=False)


def write_csv(path: Path, rows: list[dict], separator: str = ",") -> None:
    lines = [rows[0].keys(), *(row.values() for row in rows)]
    path.write_text("".join(separator.join(map(str, line)) + "\n" for line in lines))


def write_jsonl(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
