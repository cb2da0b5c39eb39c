"""What the CPU's instruction sets mean for 8-bit models, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

# The first feature that is there decides.
_SENTENCES = {
    "AMX INT8": "AMX multiplies whole tiles of 8-bit integers: INT8 models gain the most here.",
    "AVX-512 VNNI": "VNNI multiplies and adds 8-bit integers in one instruction: INT8 models usually gain here.",
    "AVX-VNNI": "VNNI multiplies and adds 8-bit integers in one instruction: INT8 models usually gain here.",
    "I8MM": "I8MM multiplies small matrices of 8-bit integers: INT8 models usually gain here.",
    "NEON DotProd": "DotProd multiplies and adds 8-bit integers in one instruction: INT8 models usually gain here.",
}
WITHOUT = (
    "No VNNI: 8-bit products take three instructions and may saturate, so INT8 can be slower than float here; "
    "quantize with 7-bit weights (reduce_range) and measure."
)
_WITHOUT_ON_ARM = "No DotProd: INT8 can be slower than float here; measure."
UNKNOWN = "The CPU's instruction sets cannot be read here; measure INT8 before you use it."


def meaning(features: Mapping[str, bool]) -> str:
    """What to expect of INT8 on a CPU with these features."""
    for name, sentence in _SENTENCES.items():
        if features.get(name):
            return sentence
    if features.get("AVX2") is not None:
        return WITHOUT
    return _WITHOUT_ON_ARM if features else UNKNOWN
