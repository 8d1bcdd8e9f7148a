"""What requests may say. Names, defaults and meaning are those of `Interpolator.mix` and `linda.augment`.

Values that the package checks itself are left to it, so that an error has the same words everywhere.
"""

import shlex
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from linda.errors import LindaError
from linda.web.limits import Limits


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _one_or_many(kind: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": kind}, {"type": "array", "items": {"type": kind}}]})


class Interpolate(_Request):
    """One pair or many. A single pair may have several ratios: the result is then the path between its texts."""

    a: Annotated[Any, _one_or_many("string")] = Field(description="The first text, or one per pair.")
    b: Annotated[Any, _one_or_many("string")] = Field(description="The second text, or one per pair.")
    alpha: Annotated[Any, _one_or_many("number")] = Field(
        default=0.5,
        description="Share of the first text, from 0 to 1: one for all, one per pair, or several for one pair.",
    )
    n: int = Field(default=1, description="Candidates for each pair and ratio, the best first.")
    raw: bool = Field(default=False, description="Mix by the ratio itself, uncalibrated, as in the paper.")
    copies: bool | None = Field(default=None, description="Allow copies of a or b between the ends. Default: as raw.")
    seed: int = Field(default=0, description="The same seed draws the same texts.")
    beams: int = Field(default=4, description="Width of the beam search; 1 is greedy.")
    sample: bool = Field(default=False, description="Draw the text at random instead of searching for the likeliest.")
    temperature: float = Field(default=1.0, description="Below 1: likelier words (with sample).")
    top_p: float = Field(default=1.0, description="Draw from the top of this mass (with sample).")
    top_k: int = Field(default=0, description="Draw from so many of the likeliest pieces; 0 is no limit (with sample).")
    stream: bool = Field(default=False, description="Answer with server-sent events, a text at a time.")
    origins: bool = Field(default=False, description="Also tell where each word comes from, and a's measured share.")

    def pairs(self, limits: Limits) -> tuple[list[Any], list[Any], list[Any]]:
        """Parallel lists of texts and ratios, not longer than allowed; each is checked where it is used."""
        a, b, alpha = self.a, self.b, self.alpha
        if isinstance(a, list) != isinstance(b, list):
            raise LindaError("a and b must be two texts or two lists of texts, got one of each")
        if not isinstance(a, list):
            alpha = alpha if isinstance(alpha, list) else [alpha]
            a, b = [a] * len(alpha), [b] * len(alpha)
        elif not isinstance(alpha, list):
            alpha = [alpha] * len(a)
        if not alpha:
            raise LindaError("there is nothing to do: give at least one pair and one ratio")
        if len(alpha) * max(1, self.n) > limits.rows:
            asked = f"{len(alpha)} pairs or ratios with {self.n} candidates"
            raise LindaError(f"{asked} are more than {limits.rows} texts; split the request")
        if self.beams > limits.beams:
            raise LindaError(f"beams={self.beams} is more than this server allows; give at most {limits.beams}")
        for name, texts in (("a", a), ("b", b)):
            check_lengths(texts, f"text {name}", limits)
        return a, b, alpha

    def decoding(self) -> dict[str, Any]:
        names = ("n", "raw", "copies", "beams", "sample", "temperature", "top_p", "top_k")
        return {name: getattr(self, name) for name in names}


def check_lengths(texts: list[Any], name: str, limits: Limits) -> None:
    longest = max((len(text) for text in texts if isinstance(text, str)), default=0)
    if longest > limits.text_characters:
        raise LindaError(
            f"{name} has {longest:,} characters; this server takes at most {limits.text_characters:,}: "
            "shorten it, or use `linda interpolate`"
        )


class Gates(_Request):
    copies: bool = Field(default=True, description="Drop rows that are one of their parents again.")
    duplicates: bool = Field(default=True, description="Drop rows that are there already.")
    runaway: bool = Field(default=True, description="Drop rows that are far too long, empty or repeat themselves.")
    drift: bool = Field(default=True, description="Drop rows that hardly share a word with their parents.")


class AugmentSettings(_Request):
    """Fields of `linda.Augmenter`; each has its default and one line of help, which the page shows."""

    text: str = Field(default="text", description="Column with the text.")
    label: str = Field(default="label", description="Column with the label, hard or soft.")
    pair: str | None = Field(default=None, description="Second text column, of a pair task.")
    per_row: int = Field(default=1, description="New rows for each original.")
    total: int | None = Field(default=None, description="New rows in all, instead of per_row.")
    partners: Literal["any", "same", "different", "stratified", "nearest"] = Field(
        default="same", description="Which rows a row may be mixed with, by their label."
    )
    ratio: str = Field(default="uniform", description="Share of a row: uniform, beta:0.4, a number or a range 0.2-0.8.")
    raw_ratio: bool = Field(default=False, description="Mix by the ratio itself, uncalibrated, as in the paper.")
    labels: Literal["interpolated", "sharpened", "predicted", "measured", "hard"] = Field(
        default="interpolated", description="How new rows get their label."
    )
    temperature: float = Field(default=0.5, description="T of sharpened labels; 1 changes nothing.")
    method: Literal["linda", "eda", "splice", "crossover"] = Field(
        default="linda",
        description="How new texts are made: linda writes the text between two, eda edits one, splice joins parts of "
        "two, and crossover joins them at the best seam.",
    )
    weight: float = Field(
        default=1.0, description="Weight of new rows in training; other than 1, in a column of that name."
    )
    gates: Gates = Field(default=Gates(), description="Which bad rows are dropped.")
    retries: int = Field(default=2, description="How often a dropped row is written again, by sampling.")
    skip_empty: bool = Field(default=False, description="Leave out rows without text instead of stopping.")
    only_new: bool = Field(default=False, description="Write the new rows without the originals.")
    seed: int = Field(default=0, description="The same seed makes the same rows.")

    def values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in AugmentSettings.model_fields} | {"gates": self.gates.model_dump()}

    def command(self, source: str, output: str, server: dict[str, str | None]) -> str:
        """The equivalent `linda augment`. server: model, engine and trigrams that the server was started with."""
        parts = ["linda", "augment", _as_file(source), "--output", _as_file(output)]
        parts += ["--text", self.text, "--label", self.label]
        idle = set() if self.labels == "sharpened" else {"temperature"}
        idle |= set() if self.method == "linda" else {"raw_ratio"}
        idle |= {"partners", "ratio"} if self.method == "eda" else set()
        idle |= {"per_row"} if self.total is not None else set()
        for name, field in AugmentSettings.model_fields.items():
            value = getattr(self, name)
            if name in ("text", "label", "gates", *idle) or value == field.default:
                continue
            option = "--" + name.replace("_", "-")
            parts += [option] if value is True else [option, str(value)]
        for gate, is_closed in self.gates:
            parts += [] if is_closed else ["--keep", gate]
        for name in {"linda": ("model", "engine"), "crossover": ("trigrams",)}.get(self.method, ()):
            given = server[name]
            parts += [] if given is None else [f"--{name}", given]
        return shlex.join(parts)


def _as_file(name: str) -> str:
    return f"./{name}" if name.startswith("-") else name


class Augment(AugmentSettings):
    """A small table at once: parallel lists in, a list of rows out."""

    data: dict[str, list[Any]] = Field(description='Parallel lists, as {"text": [...], "label": [...]}.')

    def checked_data(self, limits: Limits) -> dict[str, list[Any]]:
        rows = max(map(len, self.data.values()), default=0)
        if any(len(values) != rows for values in self.data.values()):
            lengths = ", ".join(f"{name} {len(values)}" for name, values in self.data.items())
            raise LindaError(f"the columns have different lengths ({lengths}); give one value per row in each")
        asked = rows + (self.total if self.total is not None else self.per_row * rows)
        if asked > limits.augment_rows:
            raise LindaError(
                f"{asked:,} rows are more than {limits.augment_rows:,}; split them, or use `linda augment`"
            )
        for name in (self.text, self.pair):
            check_lengths(self.data.get(name or "", []), f"a text of column {name!r}", limits)
        return self.data


class RunTable(AugmentSettings):
    """A preview of an uploaded table, or a run over all of it."""

    preview: bool = Field(default=False, description="Only the first 20 new rows, with their parents.")
    output_format: Literal["csv", "tsv", "jsonl", "parquet"] | None = Field(
        default=None, description="Of the file to download; the default is the format of the upload."
    )


class BenchCells(_Request):
    cells: list[dict[str, Any]] = Field(description="What the JSON files in `cells/` hold.")
