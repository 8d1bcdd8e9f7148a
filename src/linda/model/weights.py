"""Weights on disk: safetensors with 8, 16 or 32 bits per weight, without shared and computed tensors.

With 8 bits, a matrix W (rows × columns) is stored as integers Q from −127 to 127 with one scale per row: W ≈ diag(s)·Q,
so that the error of a weight is at most half the scale of its row. A row is an output channel of a linear layer, or the
embedding of a token. Vectors and matrices with few rows are stored with 16 bits.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from linda.errors import LindaError, checked_integer, reason
from linda.files.paths import check_regular_file
from linda.files.textio import atomic_path

_METADATA = "linda"  # key in the metadata of the file
_SCALE = ":scales"  # suffix for the scales of a quantized matrix; names of weights contain no colon
_LARGEST = 127
_FEW_ROWS = 8  # not worth quantizing: a bias per token, the weights of `attention_mixing`
_MAX_TABLE = 2**26  # numbers in a table of positions: 65,536 × 1,024


def save_weights(state: dict[str, Tensor], path: Path, bits: int) -> None:
    """Write a state dict. Tensors that share memory are stored once; tables of sinusoids are not stored."""
    if bits not in (8, 16, 32):
        raise LindaError(f"bits is {bits}; it must be 8, 16 or 32")
    stored: dict[str, Tensor] = {}
    shared: dict[str, str] = {}
    sinusoids: dict[str, list[int]] = {}
    first_names: dict[tuple[Any, ...], str] = {}
    for name, tensor in state.items():
        first = first_names.setdefault(_memory(tensor), name)
        if first != name:
            shared[name] = first
        elif _is_sinusoidal(tensor):
            sinusoids[name] = list(tensor.shape)
        else:
            stored |= _packed(name, tensor.detach().cpu(), bits)
    content = {"bits": bits, "shared": shared, "sinusoids": sinusoids}
    with atomic_path(path) as part:
        try:
            save_file(stored, part, metadata={"format": "pt", _METADATA: json.dumps(content)})
            part.chmod(0o644)  # safetensors creates private files, but a model may be shared by all users
        except OSError as error:
            raise LindaError(f"cannot write {path}: {error}") from error


def load_weights(path: Path, prefix: str = "") -> dict[str, Tensor]:
    """Load the weights whose names begin with `prefix`, as 32-bit floats."""
    with _reading(path):
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {})[_METADATA])
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 (no dict, no iteration)
            stored = {name: file.get_tensor(name) for name in names}
        state = {name: _unpacked(name, stored) for name in stored if not name.endswith(_SCALE)}
        state |= {name: _sinusoids(*shape) for name, shape in content["sinusoids"].items() if name.startswith(prefix)}
        return state | {name: state[first] for name, first in content["shared"].items() if name.startswith(prefix)}


def stored_shapes(path: Path) -> dict[str, list[int]]:
    """Return the shape of every weight by name, without reading the weights."""
    with _reading(path), safe_open(path, framework="pt") as file:
        content = json.loads((file.metadata() or {})[_METADATA])
        names = [name for name in file.keys() if not name.endswith(_SCALE)]  # noqa: SIM118 (no dict, no iteration)
        shapes: dict[str, list[int]] = {name: list(file.get_slice(name).get_shape()) for name in names}
        shapes |= {
            name: [checked_integer(size, name, 1, _MAX_TABLE) for size in shape]
            for name, shape in content["sinusoids"].items()
        }
        return shapes | {name: shapes[first] for name, first in content["shared"].items()}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert any error while reading a weights file into a `LindaError` that names it."""
    check_regular_file(path)
    try:
        yield
    except LindaError as error:
        raise LindaError(f"{path}: {error}") from error
    except (SafetensorError, OSError) as error:
        raise LindaError(
            f"{path} is damaged, or not a safetensors file ({reason(error)}); download it again"
        ) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise LindaError(f"{path} does not contain weights written by LINDA; download it again") from error


def _packed(name: str, tensor: Tensor, bits: int) -> dict[str, Tensor]:
    if bits == 32 or not tensor.is_floating_point():
        return {name: tensor.contiguous()}
    if bits == 16 or tensor.ndim != 2 or len(tensor) <= _FEW_ROWS:
        return {name: _half(name, tensor.contiguous())}
    rows = tensor.float()
    scale = _half(name, rows.abs().amax(dim=1) / _LARGEST)  # (rows,)
    # Divide by the scale as stored, in 16 bits, so that its rounding adds no error. It is 0 for a row of zeros.
    divisor = scale.float().masked_fill(scale == 0, 1.0)
    numbers = (rows / divisor[:, None]).round_().clamp_(-_LARGEST, _LARGEST).to(torch.int8)
    return {name: numbers, name + _SCALE: scale}


def _half(name: str, tensor: Tensor) -> Tensor:
    half = tensor.half()
    if not half.isfinite().all():
        raise LindaError(
            f"{name} contains numbers that 16 bits cannot represent; save with 32 bits, unless the training diverged"
        )
    return half


def _unpacked(name: str, stored: dict[str, Tensor]) -> Tensor:
    tensor = stored[name]
    if name + _SCALE in stored:
        scale = _finite(name, stored[name + _SCALE].float())
        if tensor.ndim != 2 or scale.shape != tensor.shape[:1]:
            raise ValueError(f"{name} and its scales do not match")
        return torch.mul(tensor, scale[:, None])
    if tensor.dtype == torch.int8:
        raise ValueError(f"{name} has no scales")
    return _finite(name, tensor.float()) if tensor.is_floating_point() else tensor


def _finite(name: str, tensor: Tensor) -> Tensor:
    if not tensor.isfinite().all():
        raise LindaError(f"{name} contains values that are not finite; download it again, unless the training diverged")
    return tensor


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    """Return a key that is equal for tensors that share the same memory."""
    if tensor.numel() == 0:
        return (id(tensor),)
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _is_sinusoidal(tensor: Tensor) -> bool:
    """Whether this is Marian's table of position embeddings, which is not trained."""
    if tensor.ndim != 2 or tensor.shape[1] % 2 or not tensor.is_floating_point():
        return False
    positions, width = tensor.shape
    # The first row is compared first, to avoid computing the whole table for most tensors.
    return all(
        torch.allclose(tensor[:count].float().cpu(), _sinusoids(count, width), atol=1e-6) for count in (1, positions)
    )


def _sinusoids(positions: int, width: int) -> Tensor:
    """Return the table (positions, width): sines in the left half of each row, cosines in the right."""
    if not 0 < positions * width <= _MAX_TABLE:  # a small file could otherwise allocate all memory
        raise ValueError(f"a table of {positions} by {width}")
    rates = 10_000.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()
