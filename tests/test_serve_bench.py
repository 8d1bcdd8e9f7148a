"""Results of `linda bench` over HTTP: as far as a run is, and from cells that a browser read."""

import json
from pathlib import Path
from typing import Any

import pytest

from linda.errors import LindaError
from linda.web.bench_results import checked_folder, read_results
from linda.web.interpolation import ScoredInterpolator
from screenshots import RESULTS, write_cells
from serving import Serving, serving


def cell(method: str, seed: int, accuracy: float) -> dict[str, Any]:
    return {
        "task": "sst2",
        "protocol": "5-shot",
        "shots": 5,
        "train_size": None,
        "domain": None,
        "method": method,
        "seed": seed,
        "settings": {"on": "test"},
        "policy": None,
        "scores": {"test": accuracy},
        "test_rows": {"test": 100},
        "rows": 10,
        "new_rows": 0,
        "updates": 30,
        "source": "sst2",
        "date": "2026-11-18",
        "machine": "a laptop",
        "notes": [],
        "seconds": {},
    }


ACCURACIES = {"vanilla": [60.0, 61.0, 62.0], "eda": [64.9, 66.0, 67.1]}
CELLS = [cell(method, seed, found) for method, by_seed in ACCURACIES.items() for seed, found in enumerate(by_seed)]


def test_a_folder_is_read_anew_while_a_run_adds_to_it(scored_interpolator: ScoredInterpolator, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    (folder / "cells").mkdir(parents=True)
    with serving(scored_interpolator, bench=[checked_folder(str(folder))]) as running:
        assert running.client.get("/v1/bench").json() == {"folders": ["results"]}
        assert running.client.get("/v1/bench/0").json()["cells"] == 0
        for number, values in enumerate(CELLS):
            (folder / "cells" / f"{number}.json").write_text(json.dumps(values))
            assert running.client.get("/v1/bench/0").json()["cells"] == number + 1
        results = running.client.get("/v1/bench/0").json()
        assert results == running.client.post("/v1/bench", json={"cells": CELLS}).json()
        [column] = results["columns"]
        vanilla, eda = column["methods"]
        assert (vanilla["method"], vanilla["mean"], vanilla["gain"]) == ("vanilla", 61.0, None)
        assert eda["gain"]["mean"] == pytest.approx(5.0)
        assert eda["gain"]["margin"] == pytest.approx(4.302653 * 0.1 / 3**0.5)
        assert eda["gain"]["is_clear"]
        assert eda["is_best"]
        assert results["advice"] == ["On sst2 (5-shot): eda gains 5.0 ± 0.2 points over vanilla."]
        (folder / "cells" / "bad.json").write_text("{")
        broken = running.client.get("/v1/bench/0")
        assert broken.status_code == 422
        assert "is not a result of linda bench" in broken.json()["error"]


def test_cells_that_are_none_are_422(server: Serving) -> None:
    for cells in ([{"task": "x"}], [{**CELLS[0], "scores": 3}], "cells"):
        answer = server.client.post("/v1/bench", json={"cells": cells})
        assert answer.status_code == 422
        assert answer.json()["error"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ('{"scores": {"test": null}}', "its scores cannot be {'accuracy': None}"),
        ('{"scores": {"test": 1%s}}' % ("0" * 400), "its scores cannot be {'accuracy': 1000"),
        ('{"scores": {"test": NaN}}', "its scores cannot be {'accuracy': nan}"),
        ('{"scores": {"test": {"accuracy": 60, "nll": 1e999}}}', "its scores cannot be {'accuracy': 60, 'nll': inf}"),
        ('{"test_rows": {"test": "many"}}', "its test_rows cannot be {'test': 'many'}"),
        ('{"imbalance": 1e999}', "its imbalance cannot be inf"),
        ('{"label_noise": null}', "its label_noise cannot be None"),
    ],
)
def test_cells_with_wrong_numbers_are_422(server: Serving, values: str, words: str) -> None:
    wrong = json.dumps({"cells": [{**CELLS[0], **json.loads(values)}, CELLS[3]]})
    answer = server.client.post("/v1/bench", content=wrong, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].startswith(f"these are not results of linda bench ({words}")


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(LindaError, match="is not a folder"):
        checked_folder(str(tmp_path / "none"))
    with pytest.raises(LindaError, match="the path '' is empty"):
        checked_folder("")


def test_the_screenshots_show_committed_results(tmp_path: Path) -> None:
    write_cells(RESULTS / "cells.csv", tmp_path / "cells")
    found = read_results(tmp_path)
    assert found["advice"]
    assert {column["task"] for column in found["columns"]} == {"trec-coarse", "trec-fine", "sst2", "imdb"}
