"""Replaces Cast(Cast(x)) through a type that holds every value with one Cast, or with none where the type comes back."""

from __future__ import annotations

import onnx_ir as ir

from sardonyx.optimize.passes._graph import Declined, attribute, bypass, is_standard, replace
from sardonyx.optimize.passes._rewrite import Rewrite

_WIDER = {
    "BOOL": "UINT8 INT8 UINT16 INT16 UINT32 INT32 UINT64 INT64 FLOAT16 BFLOAT16 FLOAT DOUBLE",
    "UINT8": "UINT16 INT16 UINT32 INT32 UINT64 INT64 FLOAT16 FLOAT DOUBLE",
    "INT8": "INT16 INT32 INT64 FLOAT16 FLOAT DOUBLE",
    "UINT16": "UINT32 INT32 UINT64 INT64 FLOAT DOUBLE",
    "INT16": "INT32 INT64 FLOAT DOUBLE",
    "UINT32": "UINT64 INT64 DOUBLE",
    "INT32": "INT64 DOUBLE",
    "FLOAT16": "FLOAT DOUBLE",
    "BFLOAT16": "FLOAT DOUBLE",
    "FLOAT": "DOUBLE",
}
LOSSLESS = {ir.DataType[kind]: {ir.DataType[word] for word in words.split()} for kind, words in _WIDER.items()}
ROUNDED = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)


class RemoveCastPairs(Rewrite):
    """Replaces Cast(Cast(x)) through a type that holds every value with one Cast, or with none where the type comes back.

    With `rounding`, a pair that only rounds to half precision and back goes too: the answer is then nearer to the exact one.
    """

    order = 35
    operators = ("Cast",)

    def __init__(self, *, rounding: bool = False) -> None:
        super().__init__()
        self.rounding = rounding

    def rewrite(self, node: ir.Node) -> str | None:
        first = node.inputs[0].producer() if node.inputs[0] is not None else None
        if not is_standard(first, "Cast"):
            return None
        source, last = first.inputs[0], ir.DataType(attribute(node, "to"))
        start, middle = source.dtype, ir.DataType(attribute(first, "to"))
        if start is None:
            raise Declined("the type of its input is unknown")
        exact = middle == start or middle in LOSSLESS.get(start, ())
        if not exact and not (self.rounding and rounds(node)):
            raise Declined(f"the pair rounds {start} to {middle}")
        if start == last:
            bypass(node, source)
            return "undid the Cast before it"
        replace(node, "Cast", [source], {"to": int(last)})
        return "merged with the Cast before it"


def rounds(node: ir.Node) -> bool:
    """Whether the node ends a pair of casts from float32 to half precision and back."""
    first = node.inputs[0].producer() if is_standard(node, "Cast") and node.inputs[0] is not None else None
    if not is_standard(first, "Cast"):
        return False
    kinds = first.inputs[0].dtype, ir.DataType(attribute(first, "to")), ir.DataType(attribute(node, "to"))
    return kinds[0] == kinds[2] == ir.DataType.FLOAT and kinds[1] in ROUNDED
