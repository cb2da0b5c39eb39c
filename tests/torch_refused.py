"""PyTorch models that a route refuses for a reason with a known way out, each with that route and words of the advice."""

from __future__ import annotations

import types
from typing import Any

import torch
from torch import Tensor, nn


class CountedLoop(nn.Module):
    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        for _ in range(int(count)):
            x = x * 2
        return x


class ChosenHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(3, 2), nn.Linear(3, 2)])

    def forward(self, x: Tensor, count: Tensor) -> Tensor:
        return self.heads[int(count)](x)


class ComplexNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x[:, :2].contiguous())
        return torch.view_as_real(pairs * pairs)


class SparseProduct(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sparse.mm(x.to_sparse(), x.t())


class Quantised(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()


class BuildsDict(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scaled = {f"by {factor}": x * factor for factor in range(2)}
        return scaled["by 1"]


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool1d(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x)


class BareDict(nn.Module):
    def forward(self, batch: dict) -> Tensor:  # type: ignore[type-arg]
        return batch["x"] * 2


class UnknownType(nn.Module):
    def forward(self, x: nn.Module) -> Tensor:
        return x * 2


class AnyArguments(nn.Module):
    def forward(self, *xs: Tensor) -> Tensor:
        return xs[0] * 2


class NotAnnotated(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.repeat(x, 3)

    def repeat(self, x, times):
        return torch.cat([x] * times)


class Commented(nn.Module):
    def forward(self, x):  # type: ignore[no-untyped-def, unused-ignore]
        return x * 2


class LateAttribute(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mask = None

    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = torch.ones(3)  # type: ignore[assignment]
        return x * self.mask


class HoldsSettings(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.settings = types.SimpleNamespace(factor=2)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.settings.factor


class HoldsLambda(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.double = lambda x: x * 2

    def forward(self, x: Tensor) -> Tensor:
        return self.double(x)


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.linear(x)


def generated() -> nn.Module:
    """A module whose forward has no source."""
    scope: dict[str, Any] = {}
    exec("def forward(self, x):\n    return x * 2\n", scope)
    return type("Generated", (nn.Module,), {"forward": scope["forward"]})()


def flash() -> nn.Module:
    """A module that calls a kernel of its own, as flash_attn does."""
    if not hasattr(torch.ops, "flash_attn") or not hasattr(torch.ops.flash_attn, "attend"):

        @torch.library.custom_op("flash_attn::attend", mutates_args=())
        def attend(x: Tensor) -> Tensor:
            return torch.softmax(x, -1)

        attend.register_fake(torch.empty_like)

    class Flash(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.flash_attn.attend(x)

    return Flash()


ROWS = ("x=float32[n,3]",)
COUNTED = (*ROWS, "count=int64[]")
# The model, its inputs, the route that refuses it, and words of what is said.
REFUSED: dict[str, tuple[Any, tuple[str, ...], str, str]] = {
    "a number from a tensor": (CountedLoop, COUNTED, "dynamo", "Python number of a tensor's value, which dynamo cannot follow"),
    "a module by its number": (ChosenHead, COUNTED, "script", "cannot choose a module by a computed index"),
    "complex numbers": (ComplexNumbers, ROWS, "trace", "no complex numbers; route dynamo writes them as pairs"),
    "complex numbers, compiled": (ComplexNumbers, ROWS, "script", "no complex numbers"),
    "sparse tensors": (SparseProduct, ROWS, "trace", "no sparse tensors"),
    "sparse tensors by dynamo": (SparseProduct, ROWS, "dynamo", "no sparse tensors"),
    "quantisation": (Quantised, ROWS, "dynamo", "convert the float model, then use sardonyx quantize"),
    "a fused kernel": (flash, ROWS, "trace", "attn_implementation='eager'"),
    "a fused kernel by dynamo": (flash, ROWS, "dynamo", "attn_implementation='eager'"),
    "a dict inside": (BuildsDict, ROWS, "script", "builds a dict, which script cannot export"),
    "adaptive pooling": (Pooled, ("x=float32[n,3,length]",), "trace", "adaptive_avg_pool1d needs to know the sizes"),
    "a bare dict": (BareDict, ("batch.x=float32[n,3]",), "script", "annotate it as Dict[str, Tensor]"),
    "an unknown type": (UnknownType, ROWS, "script", "TorchScript does not know the type nn.Module"),
    "any arguments": (AnyArguments, ROWS, "script", "cannot compile *args"),
    "no annotation": (NotAnnotated, ROWS, "script", "takes times for a Tensor, as it is not annotated; annotate it as int"),
    "a comment": (Commented, ROWS, "script", "takes a comment that begins with 'type:' for an annotation"),
    "a late attribute": (LateAttribute, ROWS, "script", "annotate it in the class as Optional[Tensor]"),
    "an object": (HoldsSettings, ROWS, "script", "cannot hold the attribute settings of type types.SimpleNamespace"),
    "a lambda": (HoldsLambda, ROWS, "script", "cannot compile a lambda"),
    "autocast": (Mixed, ROWS, "script", "cannot compile torch.autocast"),
    "no source": (generated, ROWS, "script", "does not find the source of a function"),
}  # fmt: skip
