"""Small PyTorch models and factories, each for one thing that a test looks at. The traps are in torch_traps.py."""

from __future__ import annotations

import types

import torch
from torch import Tensor, nn


class Small(nn.Module):
    """No trap: one linear layer and a dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.linear(x))


class Normed(nn.Module):
    """No trap: what training needs to keep."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm, self.dropout = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(self.norm(self.linear(x)))


class Talks(nn.Module):
    """Prints while it runs."""

    def forward(self, x: Tensor) -> Tensor:
        print("hello", x.shape)  # noqa: T201
        return x + 1


class Unused(nn.Module):
    """Takes an input that it never looks at."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:  # noqa: ARG002
        return x * 2


class ThroughNumpy(nn.Module):
    """Leaves PyTorch for numpy and comes back."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)


class Singular(nn.Module):
    """Uses an operator that ONNX does not have."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.svd(x)[1]


class Sampled(nn.Module):
    """Uses an operator that ONNX has from opset 16 on."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.grid_sample(x, torch.zeros(1, 2, 2, 2), align_corners=False)


class Hangs(nn.Module):
    """Never comes back from being traced."""

    def forward(self, x: Tensor) -> Tensor:
        while torch.jit.is_tracing():
            pass
        return x + 1


def wrong() -> dict[str, str]:
    return {"not": "a module"}


def raises() -> nn.Module:
    raise RuntimeError("no such checkpoint")


class Padded(nn.Module):
    """A transformer that knows which places are padding; PyTorch computes it with nested tensors."""

    def __init__(self, norm: bool = False, check: bool = True) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        last = nn.LayerNorm(8, bias=True) if norm else None
        self.encoder = nn.TransformerEncoder(layer, 2, norm=last, mask_check=check)
        if last is not None:
            nn.init.normal_(last.bias)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        return self.encoder(x, src_key_padding_mask=padding)


class Renormed(nn.Module):
    """Looks up rows that are made shorter as they are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.single = nn.Embedding(10, 4, max_norm=1.0, padding_idx=3)
        self.bag = nn.EmbeddingBag(10, 4, max_norm=0.5, norm_type=1.0)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return self.single(tokens), self.bag(tokens)


class RenormedTied(nn.Module):
    """Shares the rows that are made shorter with a layer that reads all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4, max_norm=1.0)
        self.output = nn.Linear(4, 10, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.embedding(tokens))


class OldNorms(nn.Module):
    """Computes its weights in hooks, as PyTorch did before it had parametrisations."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.weight_norm(nn.Linear(3, 4))
        self.second = nn.utils.spectral_norm(nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


class NewNorms(nn.Module):
    """Computes its weights by parametrisations."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4))
        self.second = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
        self.third = nn.utils.parametrizations.orthogonal(nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.third(self.second(self.first(x)))


class PartlyCompiled(nn.Module):
    """Has a submodule that torch.compile made."""

    def __init__(self) -> None:
        super().__init__()
        self.block = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(x) * 2


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


class CompiledFunction(nn.Module):
    """Calls a function that torch.compile made."""

    def __init__(self) -> None:
        super().__init__()
        self.activation = torch.compile(swish)

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x)


class Cache:
    """What a decoder keeps from one call for the next; no container that PyTorch knows."""

    def __init__(self, keys: Tensor) -> None:
        self.keys = keys


class Caching(nn.Module):
    """Answers with a cache unless its configuration says otherwise, as the transformers package does."""

    def __init__(self) -> None:
        super().__init__()
        self.config = types.SimpleNamespace(use_cache=True)
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor, use_cache: bool | None = None) -> dict[str, object]:
        answer: dict[str, object] = {"logits": self.linear(x)}
        if self.config.use_cache if use_cache is None else use_cache:
            answer["past_key_values"] = Cache(x)
        return answer


class AlwaysCaching(nn.Module):
    """Answers with a cache, whatever anyone says."""

    def forward(self, x: Tensor) -> tuple[Tensor, Cache]:
        return x * 2, Cache(x)


class Freezes(nn.Module):
    """Turns values into Python numbers in every way that a recorded run does not follow."""

    def forward(self, x: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if x.sum() > 0:
            x = x + 1
        total = torch.zeros(())
        for row in x:
            total = total + row.max()
        scale = torch.tensor([float(x.max())])
        return x[:, : int(count)], total, scale


class Sized(nn.Module):
    """Takes other paths for many rows and for an even number of columns."""

    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) > 8:
            x = x * 2
        if x.size(1) % 2 == 0:
            x = x + 1
        return torch.relu(x)


class FusedAttention(nn.Module):
    """Takes a view that only the memory of PyTorch's fused kernel makes possible."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        heads = self.linear(x).view(x.shape[0], x.shape[1], 2, 2).transpose(1, 2)
        bias = heads.mean(-1).unsqueeze(2)
        found = nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=bias)
        return found.transpose(1, 2).view(x.shape[0], x.shape[1], 4)
