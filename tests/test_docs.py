"""What the documentation shows is run: every example works and prints what stands below it."""

import pytest
import torch

from examples import DOCUMENTS, ROOT, examples, rerun
from linda import __version__, engines
from linda.config import LindaConfig
from linda.model.checkpoint import EMBEDDED

# The texts that the documents show are those of the engine that the embedded model takes on most processors.
EXAMPLES_ARE_OF = "int8"
ENGINE = engines.choose("auto", LindaConfig.from_json(EMBEDDED / "config.json").base, torch.device("cpu"))

ALL = [
    pytest.param(example, id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, example in enumerate(examples(path.read_text(encoding="utf-8")), start=1)
]


@pytest.mark.parametrize("example", ALL)
def test_example(example: str) -> None:
    printed_now = rerun(example)
    if ENGINE == EXAMPLES_ARE_OF:
        assert printed_now == example


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


def test_a_failing_example_is_an_error() -> None:
    [example] = examples("<!-- run -->\n```console\n$ linda interpolate only-one\n```\n")
    with pytest.raises(RuntimeError, match="only-one"):
        rerun(example)
