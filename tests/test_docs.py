"""All examples in the documentation are run, and print what the documentation shows."""

import pytest

from examples import DOCUMENTS, ROOT, examples, needs_vnni, rerun
from linda import __version__
from linda.engines import NAMES
from linda.engines.int8_engine import Int8Engine
from linda.engines.linear import IntegerProduct

ALL = [
    pytest.param(example, engine, id=f"{path.name}-{number}-{engine}")
    for path in DOCUMENTS
    for number, example in enumerate(examples(path.read_text(encoding="utf-8")), start=1)
    for engine in (["int8"] if needs_vnni(example) else NAMES)
]


@pytest.mark.parametrize(("example", "engine"), ALL)
def test_example(example: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if needs_vnni(example) and not IntegerProduct.is_exact():
        pytest.skip("the example shows what is printed with VNNI")
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


def test_an_example_may_need_vnni() -> None:
    marked = RIGHT.replace("<!-- run -->", "<!-- run: VNNI -->")
    assert [needs_vnni(example) for example in examples(RIGHT)] == [False, False]
    assert [needs_vnni(example) for example in examples(marked)] == [True, True]
    assert [rerun(example) for example in examples(marked)] == list(examples(marked))


def test_the_readme_shows_what_every_reader_sees() -> None:
    assert not any(map(needs_vnni, examples((ROOT / "README.md").read_text(encoding="utf-8"))))


def test_a_failing_example_is_an_error() -> None:
    [example] = examples("<!-- run -->\n```console\n$ linda interpolate only-one\n```\n")
    with pytest.raises(RuntimeError, match="only-one"):
        rerun(example)
