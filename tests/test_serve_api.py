"""The API: the texts of the package, over HTTP."""

import ast
import json
import re
import shutil
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

import linda
from linda import Interpolator
from linda.cli import main
from linda.measures import share_of_first
from linda.web.interpolation import ScoredInterpolator
from linda.web.limits import Limits
from linda.web.origins import word_origins
from serving import HOTEL, ROOM, Serving, serving

QUESTIONS = [
    "What is the capital of France?",
    "How many people live in Tokyo?",
    "Who wrote the first novel?",
    "When did the war end?",
    "Where is the longest river?",
    "Why is the sky blue at noon?",
]


def texts(response: httpx.Response) -> list[list[str]]:
    assert response.status_code == 200, response.text
    return [result["texts"] for result in response.json()["results"]]


# --- interpolation --------------------------------------------------------------------------------------------


def test_one_pair(server: Serving, embedded: Interpolator) -> None:
    assert texts(server.interpolate(alpha=0.3)) == [[embedded.mix(HOTEL, ROOM, alpha=0.3)]]


def test_many_pairs_with_their_own_ratios(server: Serving, embedded: Interpolator) -> None:
    a, b, alpha = QUESTIONS[:3], QUESTIONS[3:], [0.2, 0.5, 0.9]
    assert texts(server.interpolate(a, b, alpha=alpha)) == [[text] for text in embedded.mix(a, b, alpha=alpha)]


def test_a_pair_with_several_ratios_is_the_ladder_of_the_command(server: Serving) -> None:
    alpha = [step / 4 for step in range(5)]
    printed = CliRunner().invoke(main, ["interpolate", HOTEL, ROOM, "--ladder", "5"]).stdout
    assert [text for [text] in texts(server.interpolate(alpha=alpha))] == [
        line.split("\t")[1] for line in printed.splitlines()
    ]


@pytest.mark.parametrize(
    "settings",
    [{"n": 3}, {"raw": True}, {"sample": True, "seed": 7, "temperature": 1.3, "n": 2}, {"beams": 1}, {"copies": True}],
)
def test_settings_are_those_of_python(server: Serving, embedded: Interpolator, settings: dict) -> None:
    expected = embedded.mix([HOTEL], [ROOM], 0.5, **settings)[0]
    assert texts(server.interpolate(**settings)) == [expected if isinstance(expected, list) else [expected]]


def test_long_texts_are_mixed_sentence_by_sentence(server: Serving, embedded: Interpolator) -> None:
    long_a, long_b = " ".join([HOTEL] * 12), " ".join([ROOM] * 14)
    assert texts(server.interpolate(long_a, long_b)) == [[embedded.mix(long_a, long_b)]]


def test_everybody_gets_the_text_they_would_have_got_alone(server: Serving, embedded: Interpolator) -> None:
    """32 clients at a time, with different texts, ratios and settings."""
    asked = [
        {
            "a": QUESTIONS[number % 6],
            "b": [*QUESTIONS, HOTEL][(number + 1 + number % 5) % 7],
            "alpha": number / 31,
            **({"sample": True, "seed": number} if number % 4 == 0 else {}),
            **({"n": 2} if number % 5 == 0 else {}),
        }
        for number in range(32)
    ]
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda question: server.interpolate(**question), asked))
    for question, answer in zip(asked, answers, strict=True):
        expected = embedded.mix(**question)
        assert texts(answer) == [expected if isinstance(expected, list) else [expected]]


def test_scores_are_log_probabilities_and_do_not_depend_on_others(server: Serving) -> None:
    [alone] = server.interpolate(alpha=0.5, n=3, scores=True).json()["results"]
    among = server.interpolate(alpha=[0.2, 0.4, 0.5, 0.6], n=3, scores=True).json()["results"][2]
    [without] = server.interpolate(alpha=0.5, n=3).json()["results"]
    assert without == {"alpha": 0.5, "texts": alone["texts"]}
    assert all(score < 0 for score in alone["scores"])
    assert among["texts"] == alone["texts"]
    assert among["scores"] == pytest.approx(alone["scores"], abs=1e-4)


def test_events_come_one_for_each_ratio(server: Serving) -> None:
    alpha = [0, 0.5, 1]
    found = {}
    names = []
    question = {"a": HOTEL, "b": ROOM, "alpha": alpha, "stream": True, "origins": True}
    with server.client.stream("POST", "/v1/interpolate", json=question) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for block in "".join(answer.iter_text()).split("\n\n")[:-1]:
            name, data = re.fullmatch(r"event: (\w+)\ndata: (.*)", block).groups()  # type: ignore[union-attr]
            names.append(name)
            if name == "result":
                found[json.loads(data)["index"]] = json.loads(data)
    assert names == ["result", "result", "result", "done"]
    assert [found[index]["texts"] for index in range(3)] == texts(server.interpolate(alpha=alpha))
    for result in found.values():
        assert result["shares"] == [share_of_first(result["texts"][0], HOTEL, ROOM)]
    assert "".join(piece for piece, _ in found[1]["words"][0]) == found[1]["texts"][0]


def test_word_origins() -> None:
    text = "The Hotel isn't far — 城 ok"
    pieces = word_origins(text, "the hotel 城", "the room isn't")
    assert "".join(piece for piece, _ in pieces) == text
    assert [piece for piece in pieces if piece[1]] == [
        ("The", "both"),
        ("Hotel", "a"),
        ("isn't", "b"),
        ("far", "neither"),
        ("城", "a"),
        ("ok", "neither"),
    ]


# --- errors ---------------------------------------------------------------------------------------------------


def test_errors_have_the_words_of_the_command(server: Serving) -> None:
    for options, question in (
        (["--alpha", "0.5", "--beams", "0"], {"beams": 0}),
        (["--temperature", "2"], {"temperature": 2}),
        (["--n", "9"], {"n": 9}),
        (["--seed", "-3"], {"seed": -3}),
    ):
        told = CliRunner().invoke(main, ["interpolate", HOTEL, ROOM, *options])
        assert told.exit_code == 2
        answer = server.interpolate(**question)
        assert answer.status_code == 422
        assert f"linda: {answer.json()['error']}\n" == told.stderr


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"a": "x", "b": "y", "alpha": 1.5}, "alpha is 1.5; it must lie between 0"),
        ({"a": "x", "b": "y", "alpha": "much"}, "alpha is 'much', not a number"),
        ({"a": "", "b": "y"}, "text a is empty"),
        ({"a": 3, "b": "y"}, "text a is 3, not a text"),
        ({"a": ["x"], "b": "y"}, "must both be texts or both be lists of texts"),
        ({"a": ["x", "y"], "b": ["z"]}, "2 texts a, 1 texts b"),
        ({"a": "x"}, "b is missing"),
        ({"a": "x", "b": "y", "beam": 2}, "unknown setting 'beam'"),
        ({"a": "x", "b": "y", "beams": "two"}, "beams is 'two'"),
        ({"a": "x", "b": "y", "alpha": []}, "the request is empty"),
        ({"a": "x" * 2001, "b": "y"}, "2,001 characters; this server accepts at most 2,000"),
        ({"a": "x", "b": "y", "alpha": [0.5] * 257}, "more than 256 texts"),
        ({"a": "x", "b": "y", "sample": True, "n": 10**9}, "more than 256 texts"),
        ({"a": "x", "b": "y", "beams": 17}, "beams=17 is more than this server allows"),
        ([], "the body is []"),
    ],
)
def test_wrong_values_are_422_and_named(server: Serving, body: object, words: str) -> None:
    answer = server.client.post("/v1/interpolate", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_what_is_no_json_is_422(server: Serving) -> None:
    answer = server.client.post("/v1/interpolate", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "not JSON" in answer.json()["error"]


def test_extreme_settings_are_no_server_errors(server: Serving) -> None:
    for settings in ({"temperature": 1e-300}, {"temperature": 1e300, "top_p": 1e-300}, {"top_k": 10**8}):
        assert server.interpolate(sample=True, **settings).status_code in (200, 422)


def test_unknown_addresses_are_404_in_json(server: Serving) -> None:
    for path in ("/v1/nothing", "/v1/jobs/none", "/v1/bench/0", "/nothing"):
        answer = server.client.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]


def test_a_full_queue_is_429_with_a_time(scored_interpolator: ScoredInterpolator) -> None:
    with serving(scored_interpolator, limits=Limits(waiting_rows=2)) as small:
        answer = small.interpolate(alpha=[0.2, 0.5, 0.8])
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) >= 1
        assert small.interpolate(alpha=[0.2, 0.5]).status_code == 200


class Counted(ScoredInterpolator):
    """Counts the texts that are written."""

    def __init__(self, plain: Interpolator) -> None:
        super().__init__(plain)
        self.batches = 0

    def mix(self, rows, settings, on_progress):  # type: ignore[no-untyped-def]
        self.batches += 1
        return super().mix(rows, settings, on_progress)


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_client_dropped_is_not_computed_further(embedded: Interpolator, stream: bool) -> None:
    """256 long texts are four batches; the client leaves during the first."""
    counted = Counted(embedded)
    with serving(counted) as running:
        before = counted.batches
        body = json.dumps({"a": [HOTEL] * 256, "b": [ROOM] * 256, "alpha": 0.5, "stream": stream}).encode()
        host, port = running.address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            head = f"POST /v1/interpolate HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            while counted.batches == before:
                pass
        assert running.interpolate().status_code == 200  # waits its turn behind whatever is left
        assert counted.batches <= before + 3  # the first, at most one more, and this one: not all four


# --- augmentation ---------------------------------------------------------------------------------------------

DATA = {"text": [*QUESTIONS], "label": ["place", "number", "person", "time", "place", "number"]}


@pytest.mark.parametrize("settings", [{"partners": "any", "seed": 5}, {"method": "eda", "only_new": True}])
def test_augment_is_that_of_python(server: Serving, settings: dict) -> None:
    answer = server.client.post("/v1/augment", json={"data": DATA, **settings})
    assert answer.status_code == 200, answer.text
    expected = linda.augment(DATA, **settings)
    assert answer.json()["rows"] == json.loads(json.dumps(expected))
    assert any(row["method"] == settings.get("method", "linda") for row in expected)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"data": DATA, "text": "nothing"}, "nothing"),
        ({"data": DATA, "partners": "all"}, "partners is 'all'"),
        ({"data": DATA, "ratio": "half"}, "'half' is not a ratio"),
        ({"data": DATA, "weight": 0}, "weight is 0; it must be above 0"),
        ({"data": {**DATA, "label": ["x"]}}, "different lengths"),
        ({"data": DATA, "per_row": 1000}, "6,006 rows are more than 2,000"),
        ({"data": {**DATA, "text": ["x" * 2001] * 6}}, "2,001 characters"),
    ],
)
def test_wrong_augment_settings_are_422(server: Serving, body: dict, words: str) -> None:
    answer = server.client.post("/v1/augment", json=body)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("id", "[NaN, 1, 2, 3, 4, 5]", "row 0: 'id' is nan, which JSON cannot represent; give null or a finite number"),
        ("id", "[0, 1e999, 2, 3, 4, 5]", "row 1: 'id' is inf, which JSON cannot represent"),
        ("id", "[0, [[-1e999]], 2, 3, 4, 5]", "row 1: 'id' is [[-inf]], which JSON cannot represent"),
        ("id", '["\\ud800", 1, 2, 3, 4, 5]', "row 0: 'id' contains a lone surrogate; give valid Unicode"),
        ("id", '[{"\\ud800": 1}, 1, 2, 3, 4, 5]', "row 0: 'id' contains a lone surrogate"),
        ("\\ud800", "[0, 1, 2, 3, 4, 5]", "the column name '\\ud800' contains a lone surrogate"),
    ],
)
def test_values_that_cannot_be_sent_back_are_422(server: Serving, column: str, values: str, words: str) -> None:
    data = f'{{"data": {json.dumps(DATA)[:-1]}, "{column}": {values}}}, "method": "eda"}}'
    answer = server.client.post("/v1/augment", content=data, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422, answer.text
    assert answer.json()["error"].startswith(words)


def test_settings_and_defaults_are_those_of_the_augmenter(server: Serving) -> None:
    from dataclasses import asdict

    from linda.augmentation.gates import Gates

    info = server.client.get("/v1/info").json()
    settings = {setting["name"]: setting["default"] for setting in info["augment_settings"]}
    plain = linda.Augmenter().settings
    assert {name: value for name, value in settings.items() if name != "gates"} == {
        name: getattr(plain, name) for name in settings if name != "gates"
    }
    assert {gate["name"]: gate["default"] for gate in info["gates"]} == asdict(Gates())
    assert all(setting["help"] for setting in info["augment_settings"] + info["gates"])


# --- the description ------------------------------------------------------------------------------------------


def test_the_openapi_description_names_every_parameter(server: Serving) -> None:
    api = server.client.get("/v1/openapi.json").json()
    assert {"/v1/interpolate", "/v1/augment"} <= set(api["paths"])
    parameters = api["components"]["schemas"]["Interpolate"]["properties"]
    assert {"a", "b", "alpha", "n", "raw", "seed", "beams", "sample"} <= set(parameters)
    assert all(parameter.get("description") for parameter in parameters.values())


def test_the_examples_of_the_documentation_work(server: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    document = (Path(__file__).parents[1] / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
    document = document.replace("http://127.0.0.1:8765", server.address)
    [code] = re.findall(r"^```python\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs/how-to/serve.md", "exec"), {})
    assert len(ast.literal_eval(capsys.readouterr().out)) == 2
    [command] = re.findall(r"^```\n(curl .*?)^```", document, re.MULTILINE | re.DOTALL)
    if shutil.which("curl"):
        printed = subprocess.run(["bash", "-c", command], capture_output=True, check=True, text=True).stdout
        assert [result["alpha"] for result in json.loads(printed)["results"]] == [0.3, 0.7]


def test_the_page_needs_nothing_from_elsewhere() -> None:
    static = Path(linda.__file__).parent / "web" / "static"
    for file in static.rglob("*"):
        if file.suffix in (".html", ".css", ".js"):
            addresses = set(re.findall(r"https?://[^\s\"')]+", file.read_text(encoding="utf-8")))
            assert addresses <= {"http://www.w3.org/2000/svg"}, file
