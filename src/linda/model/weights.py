"""Weights on disk: safetensors with 8, 16 or 32 bits a weight, and nothing in it that can be had without it.

In 8 bits a matrix W (rows × columns) is stored as whole numbers Q from −127 to 127 with one scale per row:
W ≈ diag(s)·Q, so that no weight is off by more than half its row's scale. A row is an output channel of a
linear layer, or the embedding of one piece. Vectors, which are few, and matrices of a few rows take 16 bits.
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

_METADATA = "linda"  # key of the file's metadata
_SCALE = ":scales"  # suffix of a quantized matrix's scales; no name of a weight holds a colon
_LARGEST = 127
_FEW_ROWS = 8  # which would save nothing in 8 bits: a bias per piece, the weights of `attention_mixing`
_LARGEST_TABLE = 2**26  # numbers of positions: 65,536 of 1,024


def save_weights(state: dict[str, Tensor], path: Path, bits: int) -> None:
    """Writes a state dict. Of tensors that share their memory one is stored; tables of sinusoids are not."""
    if bits not in (8, 16, 32):
        raise LindaError(f"weights are stored in 8, 16 or 32 bits, not {bits}")
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
            part.chmod(0o644)  # safetensors keeps its files to their owner; a model is installed for everybody
        except OSError as error:
            raise LindaError(f"cannot write {path}: {error}") from error


def load_weights(path: Path, prefix: str = "") -> dict[str, Tensor]:
    """The state dict that `save_weights` was given, every weight in 32 bits; of it what begins with `prefix`."""
    with _damage(path):
        with safe_open(path, framework="pt") as file:
            content = json.loads((file.metadata() or {})[_METADATA])
            names = [name for name in file.keys() if name.startswith(prefix)]  # noqa: SIM118 (no dict, no iteration)
            stored = {name: file.get_tensor(name) for name in names}
        state = {name: _unpacked(name, stored) for name in stored if not name.endswith(_SCALE)}
        state |= {name: _sinusoids(*shape) for name, shape in content["sinusoids"].items() if name.startswith(prefix)}
        return state | {name: state[first] for name, first in content["shared"].items() if name.startswith(prefix)}


def stored_shapes(path: Path) -> dict[str, list[int]]:
    """The shape of every weight, by its name. No weight is read."""
    with _damage(path), safe_open(path, framework="pt") as file:
        content = json.loads((file.metadata() or {})[_METADATA])
        names = [name for name in file.keys() if not name.endswith(_SCALE)]  # noqa: SIM118 (no dict, no iteration)
        shapes: dict[str, list[int]] = {name: list(file.get_slice(name).get_shape()) for name in names}
        shapes |= {
            name: [checked_integer(size, name, 1, _LARGEST_TABLE) for size in shape]
            for name, shape in content["sinusoids"].items()
        }
        return shapes | {name: shapes[first] for name, first in content["shared"].items()}


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    """Whatever a file of weights can have wrong is an error that names it."""
    check_regular_file(path)
    try:
        yield
    except LindaError as error:
        raise LindaError(f"{path}: {error}") from error
    except (SafetensorError, OSError) as error:
        raise LindaError(f"{path} is damaged, or no safetensors file ({reason(error)}); fetch it anew") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise LindaError(f"{path} holds no weights that LINDA has written; fetch it anew") from error


def _packed(name: str, tensor: Tensor, bits: int) -> dict[str, Tensor]:
    if bits == 32 or not tensor.is_floating_point():
        return {name: tensor.contiguous()}
    if bits == 16 or tensor.ndim != 2 or len(tensor) <= _FEW_ROWS:
        return {name: _half(name, tensor.contiguous())}
    rows = tensor.float()
    scale = _half(name, rows.abs().amax(dim=1) / _LARGEST)  # (rows,)
    # The rounded scale divides, so that the rounding costs no accuracy. It is 0 for a row of zeros.
    divisor = scale.float().masked_fill(scale == 0, 1.0)
    numbers = (rows / divisor[:, None]).round_().clamp_(-_LARGEST, _LARGEST).to(torch.int8)
    return {name: numbers, name + _SCALE: scale}


def _half(name: str, tensor: Tensor) -> Tensor:
    half = tensor.half()
    if not half.isfinite().all():
        raise LindaError(f"{name} holds numbers that 16 bits cannot hold: the training has diverged, or store 32 bits")
    return half


def _unpacked(name: str, stored: dict[str, Tensor]) -> Tensor:
    tensor = stored[name]
    if name + _SCALE in stored:
        scale = _finite(name, stored[name + _SCALE].float())
        if tensor.ndim != 2 or scale.shape != tensor.shape[:1]:
            raise ValueError(f"{name} and its scales do not fit")
        return torch.mul(tensor, scale[:, None])
    if tensor.dtype == torch.int8:
        raise ValueError(f"{name} has no scales")
    return _finite(name, tensor.float()) if tensor.is_floating_point() else tensor


def _finite(name: str, tensor: Tensor) -> Tensor:
    if not tensor.isfinite().all():
        raise LindaError(f"{name} holds numbers that are not finite: the file is damaged, or its training diverged")
    return tensor


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    """Equal for tensors that are the same numbers in the same place."""
    if tensor.numel() == 0:
        return (id(tensor),)
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


def _is_sinusoidal(tensor: Tensor) -> bool:
    """Is it the table of positions that Marian computes, and never trains?"""
    if tensor.ndim != 2 or tensor.shape[1] % 2 or not tensor.is_floating_point():
        return False
    positions, width = tensor.shape
    # The first row alone tells it from any other matrix, and spares the sines of a whole embedding.
    return all(
        torch.allclose(tensor[:count].float().cpu(), _sinusoids(count, width), atol=1e-6) for count in (1, positions)
    )


def _sinusoids(positions: int, width: int) -> Tensor:
    """Sines in the left half of each row, cosines in the right. (positions, width)"""
    if not 0 < positions * width <= _LARGEST_TABLE:  # a few bytes of a file must not ask for all the memory
        raise ValueError(f"a table of {positions} by {width}")
    rates = 10_000.0 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] / rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()
