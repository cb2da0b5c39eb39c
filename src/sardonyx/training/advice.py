"""What to do about an operator that no gradient passes, in a sentence for each."""

from __future__ import annotations

FREEZE = "freeze what lies behind it with --freeze-blocked"
_FOLD = "compute it before the model, with the other preparation of the data"
_SEQUENCE = "export the model with tensors in place of sequences: Split, Concat and Scan have gradients"
_REGION = f"{FREEZE}, as detectors are usually trained further; Resize and Slice have gradients"
_QUANTISED = "train the float model, and quantise it afterwards with sardonyx quantize"

ADVICE = {
    "DFT": "write it as MatMul with the cosines and sines of the transform, or " + _FOLD,
    "STFT": "write it as Conv with the windowed cosines and sines as kernels, or " + _FOLD,
    "GridSample": _REGION,
    "RoiAlign": _REGION,
    "MaxRoiPool": _REGION,
    "DeformConv": "train with a Conv in its place, or " + FREEZE,
    "Det": "write it with Mul and Sub for a small matrix, or " + FREEZE,
    "CumProd": "write it as Exp(CumSum(Log(x))) where x is positive",
    "TensorScatter": "write it as ScatterND",
    "QuantizeLinear": _QUANTISED,
    "DequantizeLinear": _QUANTISED,
    "Unique": _FOLD,
    "ImageDecoder": _FOLD,
    "TfIdfVectorizer": _FOLD,
    "StringNormalizer": _FOLD,
    "StringConcat": _FOLD,
    "StringSplit": _FOLD,
    "RegexFullMatch": _FOLD,
    **dict.fromkeys(
        ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
         "SplitToSequence", "ConcatFromSequence", "SequenceMap", "Optional", "OptionalGetElement", "OptionalHasElement"),
        _SEQUENCE,
    ),
}  # fmt: skip
OTHERWISE = f"{FREEZE}, or write the node with operators of docs/gradients.md"


def advice(op_type: str) -> str:
    """What to do about a node of this operator."""
    return ADVICE.get(op_type, OTHERWISE)
