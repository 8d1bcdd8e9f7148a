"""What the documentation shows is run: every example works and prints what stands below it."""

import pytest

from examples import DOCUMENTS, ROOT, engines_of, examples, rerun
from linda import __version__
from linda.engines.int8_engine import Int8Engine

ALL = [
    pytest.param(example, engine, id=f"{path.name}-{number}-{engine}")
    for path in DOCUMENTS
    for number, example in enumerate(examples(path.read_text(encoding="utf-8")), start=1)
    for engine in engines_of(example)
]


@pytest.mark.parametrize(("example", "engine"), ALL)
def test_example(example: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if engine == "torch":
        monkeypatch.setattr(Int8Engine, "why_not", staticmethod(lambda base, device: "the torch engine is tested"))
    assert rerun(example) == example


def test_the_readme_has_examples() -> None:
    found = list(examples((ROOT / "README.md").read_text(encoding="utf-8")))
    assert any("```console" in example for example in found)
    assert any("```python" in example for example in found)


RIGHT = f"""
<!-- run -->
```python
print("one", "two")
```

```text
one two
```

<!-- run -->
```console
$ linda --version
linda, version {__version__}
```
"""


def test_a_wrong_example_is_found_and_mended() -> None:
    wrong = RIGHT.replace("\none two\n", "\none three\n").replace(__version__, "other")
    for right_one, wrong_one in zip(examples(RIGHT), examples(wrong), strict=True):
        assert right_one != wrong_one
        assert rerun(right_one) == rerun(wrong_one) == right_one


def test_an_example_is_of_every_engine_or_of_the_one_it_names() -> None:
    assert [engines_of(example) for example in examples(RIGHT)] == [("int8", "torch")] * 2
    named = RIGHT.replace("<!-- run -->", "<!-- run: int8 -->")
    assert [engines_of(example) for example in examples(named)] == [("int8",)] * 2
    assert [rerun(example) for example in examples(named)] == list(examples(named))


def test_a_failing_example_is_an_error() -> None:
    [example] = examples("<!-- run -->\n```console\n$ linda interpolate only-one\n```\n")
    with pytest.raises(RuntimeError, match="only-one"):
        rerun(example)
