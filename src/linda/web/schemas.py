"""The fields of requests. Names, defaults and meaning are those of `Interpolator.mix` and `linda.augment`.

Values that the package checks itself are not checked here, so that errors are worded the same everywhere.
"""

import json
import shlex
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from linda.errors import LindaError, checked_unicode, shortened
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
    n: int = Field(default=1, description="Number of candidates for each pair and ratio, best first.")
    raw: bool = Field(default=False, description="Use the ratio as given, without calibration, as in the paper.")
    copies: bool | None = Field(
        default=None, description="Allow copies of a or b between the ends. Default: same as raw."
    )
    seed: int = Field(default=0, description="Random seed of sampling.")
    beams: int = Field(default=4, description="Beam width; 1 is greedy decoding.")
    sample: bool = Field(default=False, description="Sample instead of beam search.")
    temperature: float = Field(default=1.0, description="Sampling temperature.")
    top_p: float = Field(default=1.0, description="Nucleus sampling threshold.")
    top_k: int = Field(default=0, description="Sample from the k likeliest tokens; 0 means no limit.")
    stream: bool = Field(default=False, description="Respond with server-sent events, one per text.")
    origins: bool = Field(default=False, description="Return the origin of each word, and the measured share of a.")
    scores: bool = Field(
        default=False, description="Return the score of each text: the mean log-probability of its tokens."
    )

    def pairs(self, limits: Limits) -> tuple[list[Any], list[Any], list[Any]]:
        """Return parallel lists of texts and ratios within the limits; the values are checked later."""
        a, b, alpha = self.a, self.b, self.alpha
        if isinstance(a, list) != isinstance(b, list):
            raise LindaError("a and b must both be texts or both be lists of texts, got one of each")
        if not isinstance(a, list):
            alpha = alpha if isinstance(alpha, list) else [alpha]
            a, b = [a] * len(alpha), [b] * len(alpha)
        elif not isinstance(alpha, list):
            alpha = [alpha] * len(a)
        if not alpha:
            raise LindaError("the request is empty: give at least one pair and one ratio")
        if len(alpha) * max(1, self.n) > limits.rows:
            asked = f"{len(alpha)} pairs or ratios with {self.n} candidates"
            raise LindaError(f"{asked} are more than {limits.rows} texts; split the request")
        if self.beams > limits.beams:
            raise LindaError(f"beams={self.beams} is more than this server allows; give at most {limits.beams}")
        for name, texts in (("a", a), ("b", b)):
            check_lengths(texts, f"text {name}", limits)
        return a, b, alpha

    def decoding(self) -> dict[str, Any]:
        names = ("n", "raw", "copies", "scores", "beams", "sample", "temperature", "top_p", "top_k")
        return {name: getattr(self, name) for name in names}


def check_lengths(texts: list[Any], name: str, limits: Limits) -> None:
    longest = max((len(text) for text in texts if isinstance(text, str)), default=0)
    if longest > limits.text_characters:
        raise LindaError(
            f"{name} has {longest:,} characters; this server accepts at most {limits.text_characters:,}: "
            "shorten it, or use `linda interpolate`"
        )


class GateSwitches(_Request):
    copies: bool = Field(default=True, description="Drop rows that equal one of their parents.")
    duplicates: bool = Field(default=True, description="Drop rows that equal an original or an earlier new row.")
    runaway: bool = Field(default=True, description="Drop rows that are empty, far too long or repetitive.")
    drift: bool = Field(default=True, description="Drop rows with hardly any words of their parents.")


class AugmentSettings(_Request):
    """Fields of `AugmentationSettings`; the page shows the descriptions as help."""

    text: str = Field(default="text", description="Text column.")
    label: str = Field(default="label", description="Label column, with hard or soft labels.")
    pair: str | None = Field(default=None, description="Second text column of a pair task.")
    per_row: int = Field(default=1, description="New rows per original row.")
    total: int | None = Field(default=None, description="New rows in total, instead of per_row.")
    partners: Literal["any", "same", "different", "stratified", "nearest"] = Field(
        default="same", description="Which rows may be mixed with a row, by label."
    )
    ratio: str = Field(
        default="uniform", description="Mixing ratio: uniform, beta:0.4, a constant or a range (0.2-0.8)."
    )
    raw_ratio: bool = Field(default=False, description="Use the ratio as given, without calibration, as in the paper.")
    labels: Literal["interpolated", "sharpened", "predicted", "measured", "hard"] = Field(
        default="interpolated", description="How new rows are labelled."
    )
    temperature: float = Field(default=0.5, description="Temperature of sharpened labels; 1 changes nothing.")
    method: Literal["linda", "eda", "splice", "crossover"] = Field(
        default="linda",
        description="How new texts are made: linda writes the text between two, eda edits one, splice joins parts of "
        "two, and crossover joins them at the best seam.",
    )
    weight: float = Field(
        default=1.0, description="Training weight of new rows; a value other than 1 adds a column `weight`."
    )
    gates: GateSwitches = Field(default=GateSwitches(), description="Filters for new texts.")
    retries: int = Field(default=2, description="How often a rejected text is written again, by sampling.")
    skip_empty: bool = Field(default=False, description="Skip rows without text instead of raising an error.")
    only_new: bool = Field(default=False, description="Write the new rows without the originals.")
    seed: int = Field(default=0, description="Random seed.")

    def values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in AugmentSettings.model_fields} | {"gates": self.gates.model_dump()}

    def command(self, source: str, output: str, server: dict[str, str | None]) -> str:
        """Return the equivalent `linda augment` command. server: model, engine and trigrams of the server."""
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
        for gate, is_enabled in self.gates:
            parts += [] if is_enabled else ["--keep", gate]
        for name in {"linda": ("model", "engine"), "crossover": ("trigrams",)}.get(self.method, ()):
            given = server[name]
            parts += [] if given is None else [f"--{name}", given]
        return shlex.join(parts)


def _as_file(name: str) -> str:
    return f"./{name}" if name.startswith("-") else name


class Augment(AugmentSettings):
    """A small table as parallel lists; the result is a list of rows."""

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
        self._check_other_columns()
        return self.data

    def _check_other_columns(self) -> None:
        """Check that values that are only copied can be returned as JSON."""
        for name, values in self.data.items():
            checked_unicode(name, f"the column name {name!r}")
            if name in (self.text, self.pair, self.label):  # checked by the package
                continue
            for row, value in enumerate(values):
                check_sendable(value, f"row {row}: {name!r}")


def check_sendable(value: Any, name: str) -> None:
    """Check that a value can be sent as JSON. `name` is its name in messages."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise LindaError(f"{name} contains a lone surrogate; give valid Unicode") from None
    except ValueError:
        raise LindaError(
            f"{name} is {shortened(value)}, which JSON cannot represent; give null or a finite number"
        ) from None


class RunTable(AugmentSettings):
    """A preview of an uploaded table, or a run on the whole table."""

    preview: bool = Field(default=False, description="Make only the first 20 new rows, and return their parents.")
    output_format: Literal["csv", "tsv", "jsonl", "parquet"] | None = Field(
        default=None, description="Format of the output file; default: that of the upload."
    )


class BenchCells(_Request):
    cells: list[dict[str, Any]] = Field(description="The contents of the JSON files in `cells/`.")
