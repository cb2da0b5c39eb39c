"""all-MiniLM-L6-v2 in PyTorch: tokens in, one vector of length one for each sentence out."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

SIZE, HEADS, WIDE, LAYERS = 384, 12, 1536, 6


def _norm() -> nn.LayerNorm:
    return nn.LayerNorm(SIZE, eps=1e-12)


class Layer(nn.Module):
    """Attention and a wide layer, each added to its input and normed."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.joined = (nn.Linear(SIZE, SIZE) for _ in range(4))
        self.wide, self.narrow = nn.Linear(SIZE, WIDE), nn.Linear(WIDE, SIZE)
        self.after_attention, self.after_wide = _norm(), _norm()

    def forward(self, x: Tensor, seen: Tensor) -> Tensor:
        query, key, value = (
            part(x).unflatten(2, (HEADS, SIZE // HEADS)).transpose(1, 2) for part in (self.query, self.key, self.value)
        )
        scores = query @ key.transpose(2, 3) / (SIZE // HEADS) ** 0.5 + seen
        heads = (scores.softmax(dim=3) @ value).transpose(1, 2).flatten(2)
        x = self.after_attention(x + self.joined(heads))
        return self.after_wide(x + self.narrow(functional.gelu(self.wide(x))))


class MiniLM(nn.Module):
    """The encoder, with the mean over the tokens of a sentence and the norm that its authors put after it."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.kinds = nn.Embedding(30522, SIZE), nn.Embedding(512, SIZE), nn.Embedding(2, SIZE)
        self.norm = _norm()
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        seen = attention_mask.float()
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.norm(self.words(input_ids) + self.places(places) + self.kinds.weight[0])
        hidden = (1.0 - seen[:, None, None, :]) * -1e9
        for layer in self.layers:
            x = layer(x, hidden)
        mean = (x * seen[:, :, None]).sum(dim=1) / seen.sum(dim=1, keepdim=True)
        return functional.normalize(mean, dim=1)


# The names of the published weights, and ours.
_NAMES = {
    "embeddings.word_embeddings": "words", "embeddings.position_embeddings": "places",
    "embeddings.token_type_embeddings": "kinds", "embeddings.LayerNorm": "norm", "encoder.layer": "layers",
    "attention.self.query": "query", "attention.self.key": "key", "attention.self.value": "value",
    "attention.output.dense": "joined", "attention.output.LayerNorm": "after_attention",
    "intermediate.dense": "wide", "output.dense": "narrow", "output.LayerNorm": "after_wide",
}  # fmt: skip


def published(weights: Path) -> MiniLM:
    """The network with the published weights; each of them must find its place."""
    model, renamed = MiniLM(), {}
    for name, tensor in load_file(weights).items():
        if name.startswith("pooler.") or name.endswith("position_ids"):  # not part of a sentence's vector
            continue
        for theirs, ours in _NAMES.items():
            name = name.replace(theirs, ours)
        renamed[name] = tensor
    model.load_state_dict(renamed)
    return model.eval()
