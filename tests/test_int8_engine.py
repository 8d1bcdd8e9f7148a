"""The 8-bit engine compared to the exact one, and its own guarantees."""

import os
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from transformers import PreTrainedModel

from linda.engines import bart_family, choose, short_list
from linda.engines.attention import attend, attention_bias
from linda.engines.bart_family import ACTIVATIONS
from linda.engines.decoding import Decoding
from linda.engines.int8_engine import Int8Engine
from linda.engines.int8_paths import Int8Paths
from linda.engines.linear import (
    FloatProduct,
    IntegerProduct,
    Linear,
    Product,
    SevenBitProduct,
    _few_sizes,
    find_product,
)
from linda.engines.quantized import Matrix, quantize, quantize_above
from linda.engines.torch_engine import TorchEngine
from linda.errors import LindaError
from linda.interpolation import Interpolator
from linda.model.batching import padded
from test_engines import (
    FAMILIES,
    LONGEST,
    VOCABULARY,
    assert_rows_are_independent,
    bart,
    build,
    check_prior,
    check_samples_follow_the_seed,
    ids_of,
    marian,
    mbart,
    rows,
    t5,
)

CPU = torch.device("cpu")
PRODUCTS: list[type[Product]] = [
    FloatProduct,
    *(kernel for kernel in (IntegerProduct, SevenBitProduct) if kernel.is_exact()),
]
NEEDS_VNNI = pytest.mark.skipif(
    IntegerProduct not in PRODUCTS, reason="needs a processor with 8-bit dot products (VNNI)"
)
KNOWN = [family for family in FAMILIES if family is not t5]


def base_of(model: PreTrainedModel) -> dict:
    return model.config.to_dict() | {"forced_bos_token_id": model.generation_config.forced_bos_token_id}


def int8(model: PreTrainedModel, product: type[Product] | None = None) -> Int8Engine:
    weights = {f"seq2seq.{name}": tensor for name, tensor in model.state_dict().items()}
    return Int8Engine(base_of(model), weights, product)


def paths_of(engine: Int8Engine, states: torch.Tensor, mask: torch.Tensor) -> Int8Paths:
    return Int8Paths(engine._network, engine._output(None), states, attention_bias(mask), max_tokens=4 * 30)


def gentle(family, **settings: float) -> PreTrainedModel:
    """Weights so small that 8-bit rounding changes no choice of a token, except for ties."""
    model = build(family, **settings)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "layers" in name and weight.dim() == 2:
                weight.mul_(0.3)
    return model


def test_a_row_has_its_own_scale_and_is_off_by_half_of_it_at_most() -> None:
    x = torch.randn(5, 40, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [[1e-6], [1.0], [1e6], [3.0], [0.0]]
    )
    numbers, scales, _ = quantize(x)
    restored = (numbers.double() - 128) * scales
    assert torch.allclose(scales[:4, 0] * 127, x[:4].abs().amax(1))
    assert ((restored - x).abs() <= scales / 2 * (1 + 1e-5)).all()
    assert quantize(x[2:3]).numbers.equal(numbers[2:3])


def test_spare_rows_give_the_same_numbers() -> None:
    x = torch.randn(7, 33)
    expected = quantize(x)
    given = quantize(x.clone(), spare=True)
    assert given.numbers.equal(expected.numbers)
    assert given.scales.equal(expected.scales)


@pytest.mark.parametrize("product", PRODUCTS)
@pytest.mark.parametrize(("inputs", "outputs", "count"), [(16, 3, 1), (512, 70, 33), (2048, 512, 5)])
def test_a_linear_layer_is_the_integer_product_times_both_scales(
    inputs: int, outputs: int, count: int, product: type[Product]
) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(outputs, inputs, generator=generator), torch.randn(outputs, generator=generator)
    x = torch.randn(count, inputs, generator=generator)
    matrix, activations = Matrix.of(weight, product.largest_weight), quantize(x)
    products = (activations.numbers.double() - 128) @ matrix.numbers.double().T
    expected = products * activations.scales * matrix.scales + bias
    assert torch.allclose(Linear.of(weight, bias, product)(activations).double(), expected, rtol=1e-5, atol=1e-5)
    # The error of each number is uniform within one scale, so that of the sum is its root mean square.
    exact = x @ weight.T + bias
    error = activations.scales * weight.norm(dim=1) + matrix.scales * x.norm(dim=1, keepdim=True)
    assert ((expected - exact).abs() < 5 * error / 12**0.5).all()


@NEEDS_VNNI
@pytest.mark.parametrize(("inputs", "outputs", "count"), [(16, 3, 1), (512, 70, 33), (2048, 512, 5)])
def test_integers_and_floats_give_the_same_bits(inputs: int, outputs: int, count: int) -> None:
    generator = torch.Generator().manual_seed(1)
    matrix = Matrix.of(torch.randn(outputs, inputs, generator=generator))
    x = torch.randn(count, inputs, generator=generator)
    for numbers in (quantize(x), quantize_above(0.0, x.relu())):
        assert IntegerProduct(matrix)(numbers).equal(FloatProduct(matrix)(numbers))


@pytest.mark.parametrize("make", PRODUCTS)
def test_a_product_does_not_depend_on_the_other_rows(make: type[Product]) -> None:
    generator = torch.Generator().manual_seed(1)
    product = make(Matrix.of(torch.randn(300, 2048, generator=generator), make.largest_weight))
    x = torch.randn(70, 2048, generator=generator)
    together = product(quantize(x))
    for first, last in ((0, 1), (3, 8), (69, 70)):
        assert product(quantize(x[first:last])).equal(together[first:last])


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_after_an_activation_function_the_error_is_half_as_large(name: str) -> None:
    function, floor = ACTIVATIONS[name]
    generator = torch.Generator().manual_seed(1)
    weight, bias = torch.randn(40, 256, generator=generator), torch.randn(40, generator=generator)
    x = function(torch.randn(30, 256, generator=generator) * 3)
    assert function(torch.linspace(-20, 20, 100_001)).min() >= floor
    rows = quantize_above(floor, x.clone())
    assert ((rows.numbers.double() * rows.scales + floor - x).abs() <= rows.scales / 2 * (1 + 1e-4)).all()
    for product in PRODUCTS:
        matrix = Matrix.of(weight, product.largest_weight)
        exact = x.double() @ (matrix.numbers.double() * matrix.scales[:, None]).T + bias
        above = (Linear.of(weight, bias, product, floor)(rows) - exact).norm()
        symmetric = (Linear.of(weight, bias, product)(quantize(x)) - exact).norm()
        assert above < 0.6 * symmetric


@pytest.mark.parametrize("product", PRODUCTS)
def test_the_largest_numbers_do_not_overflow(product: type[Product]) -> None:
    x = torch.ones(2, 2048)
    result = Linear.of(torch.ones(8, 2048), torch.zeros(8), product)(quantize(x))
    assert torch.allclose(result, torch.full((2, 8), 2048.0))


class TestChoiceOfProduct:
    """Integers where the processor, PyTorch and the environment allow it, floats everywhere else."""

    @NEEDS_VNNI
    def test_8_bits_with_vnni(self) -> None:
        assert find_product() is IntegerProduct

    @pytest.mark.skipif(SevenBitProduct not in PRODUCTS, reason="needs an x86 processor with AVX2")
    @pytest.mark.parametrize("isa", ["AVX2", "AVX512_CORE"])
    def test_7_bits_where_onednn_is_kept_from_using_vnni(self, isa: str) -> None:
        code = "from linda.engines.linear import find_product; print(find_product().__name__)"
        environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        assert done.stdout == "SevenBitProduct\n"

    @pytest.mark.parametrize(
        "capabilities",
        [{"architecture": "aarch64", "neon": True, "dot": True}, {"architecture": "x86_64", "avx": True}, {}],
        ids=["aarch64", "x86 without AVX2", "unknown"],
    )
    def test_floats_on_other_processors(self, capabilities: dict, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
        self.check_floats()

    def test_floats_without_onednn_as_on_apple_silicon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        self.check_floats()

    def check_floats(self) -> None:
        """They are selected, and give the same texts as 8-bit integers where these are exact."""
        model = build(bart, ending=5.0)
        assert find_product() is FloatProduct
        assert choose("auto", base_of(model), CPU) == "int8"
        given, expected = (
            ids_of(int8(model, product).decode(*rows(8), Decoding(n=2), [0] * 8))
            for product in (None, IntegerProduct if IntegerProduct in PRODUCTS else FloatProduct)
        )
        assert given == expected


def test_weights_that_were_stored_in_8_bits_keep_their_numbers() -> None:
    stored = torch.randint(-127, 128, (20, 64), dtype=torch.int8)
    stored[:, 0] = 127
    scales = (torch.rand(20) / 100).half().float()
    assert Matrix.of(stored * scales[:, None]).numbers.equal(stored)


def test_attention_is_that_of_pytorch() -> None:
    generator = torch.Generator().manual_seed(2)
    queries, keys, values = (torch.randn(3, n, 2, 8, generator=generator) for n in (4, 9, 9))
    mask = torch.arange(9) < torch.tensor([[9], [1], [5]])
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (queries, keys, values)), attn_mask=mask[:, None, None]
    )
    given = attend(
        queries * 8**-0.5, keys.permute(0, 2, 3, 1), values.transpose(1, 2), attention_bias(mask)[:, None, None]
    )
    assert torch.allclose(given.view(3, 4, 2, 8), expected.transpose(1, 2), atol=1e-6)


@pytest.mark.parametrize("family", KNOWN)
def test_states_are_those_of_the_model_within_8_bits(family) -> None:
    model = gentle(family)
    ids = torch.randint(3, 50, (5, LONGEST), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(LONGEST) < torch.tensor([[12], [1], [7], [12], [3]])).long()
    with torch.no_grad():
        expected = model.get_encoder()(input_ids=ids, attention_mask=mask).last_hidden_state
    given = int8(model).encode(ids, mask)
    real = mask.bool()
    assert (given - expected)[real].norm() < 0.02 * expected[real].norm()
    alone = int8(model).encode(ids[2:3, :7], mask[2:3, :7])
    assert torch.allclose(alone[0], given[2, :7], atol=1e-5)


def test_states_do_not_depend_on_the_rows_beside_them() -> None:
    """Identical to the last bit, which 8-bit rounding amplifies: short texts next to long ones, and alone."""
    engine = int8(gentle(bart))
    texts = [torch.randint(3, 50, (length,)) for length in (3, 7, 12, 15, 16, 24)]
    together = engine.encode(*padded(texts, 1))
    for row, text in enumerate(texts):
        alone = engine.encode(*padded([text], 1))
        assert torch.equal(alone[0, : len(text)], together[row, : len(text)])


@pytest.mark.parametrize("beams", [9, 16, 24, 40])
def test_any_number_of_beams_has_room(beams: int) -> None:
    model = gentle(bart, ending=5.0)
    states, mask = rows(4)
    exact = TorchEngine(model).decode(states, mask, Decoding(beams=beams), [0] * 4)
    given = int8(model).decode(states, mask, Decoding(beams=beams), [0] * 4)
    assert sum(x[0].ids == y[0].ids for x, y in zip(exact, given, strict=True)) >= 3


@pytest.mark.parametrize("family", KNOWN)
@pytest.mark.parametrize(
    "settings",
    [{}, {"beams": 1}, {"beams": 3, "n": 3, "length_penalty": 0.6}, {"n": 2, "no_repeat_ngram": 2}],
    ids=str,
)
def test_texts_are_nearly_those_of_the_exact_engine(family, settings: dict) -> None:
    model = gentle(family, ending=5.0)
    decoding = Decoding(**settings)
    states, mask = rows(16)
    exact = TorchEngine(model).decode(states, mask, decoding, [0] * 16)
    given = int8(model).decode(states, mask, decoding, [0] * 16)
    same = [a.ids == b.ids for x, y in zip(exact, given, strict=True) for a, b in zip(x, y, strict=True)]
    assert sum(same) >= 0.6 * len(same)
    best = [(x[0].score, y[0].score) for x, y in zip(exact, given, strict=True)]
    assert sum(abs(a - b) for a, b in best) / len(best) < 0.05


@pytest.mark.parametrize("family", KNOWN)
@pytest.mark.parametrize("settings", [{}, {"beams": 1}, {"sample": True, "n": 2, "top_p": 0.9}], ids=str)
def test_a_row_does_not_depend_on_the_rest_of_its_batch(family, settings: dict) -> None:
    assert_rows_are_independent(int8(build(family)), Decoding(**settings))


@pytest.mark.parametrize("family", KNOWN)
def test_a_path_remembers_what_it_has_written_and_nothing_else(family, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any sequence of beams and rows, the next logits are those of the same texts computed from the start.

    Attention is summed in 64 bits: the order of slots differs from that of a text computed from the start, and the last
    bit of a 32-bit sum can change how a number is rounded to 8 bits.
    """
    monkeypatch.setattr(bart_family, "attend", lambda *tensors: attend(*(x.double() for x in tensors)).float())
    engine = int8(build(family))
    states, mask = rows(6)
    generator = torch.Generator().manual_seed(3)
    with torch.inference_mode():
        paths = paths_of(engine, states, mask)
        texts = torch.zeros(6, 1, 0, dtype=torch.long)
        alive = list(range(6))
        for time in range(30):
            tokens = torch.randint(0, VOCABULARY, texts.shape[:2], generator=generator)
            texts = torch.cat([texts, tokens[:, :, None]], dim=2)
            logits = paths.step(tokens)
            parents = torch.randint(0, texts.shape[1], (len(alive), 4), generator=generator)
            if time == 29:
                break
            paths.follow(parents)
            texts = texts.gather(1, parents[:, :, None].expand(-1, -1, texts.shape[2]))
            if time in (9, 19):
                order = [0, len(alive) - 1, 2]
                paths.keep(order)
                texts, alive = texts[order], [alive[place] for place in order]
        for place, row in enumerate(alive):
            for path in range(4):
                again = paths_of(engine, states[row : row + 1], mask[row : row + 1])
                for token in texts[place, path]:
                    expected = again.step(token.view(1, 1))
                assert torch.allclose(logits[place, path], expected[0, 0], atol=1e-4)


@pytest.mark.parametrize("family", KNOWN)
def test_a_prior_weighs_the_states(family) -> None:
    check_prior(int8(build(family)))


def test_samples_follow_the_seed_and_not_the_number_asked_for() -> None:
    check_samples_follow_the_seed(int8(build(marian, ending=0.0)))


def test_it_says_what_it_cannot_run() -> None:
    base = base_of(build(bart))
    assert Int8Engine.why_not(base, CPU) is None
    assert "the model family is 't5'" in str(Int8Engine.why_not(build(t5).config.to_dict(), CPU))
    assert "'tanh'" in str(Int8Engine.why_not(base | {"activation_function": "tanh"}, CPU))
    assert "not on cuda" in str(Int8Engine.why_not(base, torch.device("cuda")))


def test_a_base_without_an_end_marker_is_refused() -> None:
    model = build(mbart)
    with pytest.raises(LindaError, match="the base model defines no eos_token_id"):
        Int8Engine(base_of(model) | {"eos_token_id": None}, {f"seq2seq.{n}": t for n, t in model.state_dict().items()})


def test_transformers_is_not_imported() -> None:
    code = "import sys, linda.engines.int8_engine; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def few_common(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(short_list, "COMMON", 10)
    return 10


def row_pieces(count: int) -> list[set[int]]:
    """Of the rare pieces a few per row; some rows have none."""
    return [{3, *range(10 + 5 * row, 14 + 5 * row)} if row % 3 else set() for row in range(count)]


STRATEGIES = [{}, {"n": 4}, {"beams": 1}, {"sample": True, "n": 2, "temperature": 3.0}, {"no_repeat_ngram": 2}]


@pytest.mark.parametrize("family", [marian, bart])
@pytest.mark.parametrize("settings", STRATEGIES, ids=str)
def test_a_row_is_written_with_common_pieces_and_its_own(family, settings: dict, few_common: int) -> None:
    model, pieces = build(family, ending=3.0), row_pieces(9)
    model.final_logits_bias[0, few_common:] += 3.0
    engine = int8(model)
    texts = ids_of(engine.decode(*rows(9), Decoding(**settings), list(range(9)), pieces))
    rare = 0
    for row, own in zip(texts, pieces, strict=True):
        for text in row:
            rare += len({*text} - {*range(few_common)})
            assert {*text} <= {*range(few_common), *own}
            pairs = list(pairwise(text[:-1]))  # the end marker may be forced
            assert len({*pairs}) == len(pairs) or "no_repeat_ngram" not in settings
    assert rare > 0


@pytest.mark.parametrize("settings", STRATEGIES, ids=str)
def test_another_rows_pieces_do_not_matter(settings: dict, few_common: int) -> None:
    engine, pieces, decoding = int8(build(marian)), row_pieces(9), Decoding(**settings)
    states, mask = rows(9)
    together = engine.decode(states, mask, decoding, list(range(9)), pieces)
    for row in range(9):
        one = slice(row, row + 1)
        alone = engine.decode(states[one], mask[one], decoding, [row], pieces[one])
        assert ids_of(alone) == ids_of(together[one])
        assert [text.score for text in alone[0]] == pytest.approx([text.score for text in together[row]], abs=1e-4)


@pytest.mark.parametrize("settings", STRATEGIES, ids=str)
def test_a_list_of_all_pieces_is_the_whole_vocabulary(settings: dict, few_common: int) -> None:
    engine, decoding = int8(build(bart)), Decoding(**settings)
    states, mask = rows(6)
    whole = engine.decode(states, mask, decoding, list(range(6)))
    listed = engine.decode(states, mask, decoding, list(range(6)), [range(VOCABULARY)] * 6)
    assert ids_of(listed) == ids_of(whole)


def test_the_end_marker_is_always_at_hand(few_common: int) -> None:
    model = build(marian, ending=50.0)
    model.config.eos_token_id = 40
    model.final_logits_bias[0, 0], model.final_logits_bias[0, 40] = 0.0, 50.0
    base = base_of(model) | {"eos_token_id": 40}
    engine = Int8Engine(base, {f"seq2seq.{name}": tensor for name, tensor in model.state_dict().items()})
    assert ids_of(engine.decode(*rows(2), Decoding(), [0, 0], [set(), set()])) == [[[40]], [[40]]]


def test_the_embedded_model_writes_nearly_what_the_exact_engine_writes() -> None:
    a = ["What is the capital of France?", "The museum opened to the public in 1987.", "a warm , funny little film ."]
    b = ["How many people live in Tokyo?", "She plays the violin in a small orchestra.", "the story goes nowhere"]
    a, b, alpha = a * 5, b * 5, [ratio for ratio in (0.0, 0.2, 0.5, 0.8, 1.0) for _ in range(3)]
    exact, fast = (Interpolator.from_pretrained(engine=name).mix(a, b, alpha) for name in ("torch", "int8"))
    assert sum(map(str.__eq__, exact, fast)) >= 9
    assert fast[:3] == b[:3]
    assert fast[-3:] == a[-3:]


def test_rows_are_rounded_up_to_few_numbers() -> None:
    sizes = [_few_sizes(count) for count in range(1, 4097)]
    assert all(count <= size <= 1.125 * count for count, size in enumerate(sizes, start=1))
    assert len(set(sizes)) < 100
