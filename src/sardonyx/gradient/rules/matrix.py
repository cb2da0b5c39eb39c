"""Products of matrices: MatMul, Gemm and Einsum."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from sardonyx.build import Expr, op
from sardonyx.gradient.shapes import expand_like, join_sizes, reshape, size_of, sum_to, swap_last


def _matmul_left(g: Expr, y: Expr, a: Expr, b: Expr) -> Expr:
    if b.rank == 1:  # [..., n] x [n]
        return sum_to(op("Unsqueeze", g, [-1]) * b, a) if a.rank > 1 else g * b
    if a.rank == 1:  # [n] x [..., n, m]
        return sum_to(op("ReduceSum", op("Unsqueeze", g, [-2]) * b, [-1], keepdims=0), a)
    if a.rank == b.rank == 2:
        return op("Gemm", g, b, transB=1)
    return sum_to(g @ swap_last(b), a)


def _matmul_right(g: Expr, y: Expr, a: Expr, b: Expr) -> Expr:
    if a.rank == 1:
        return sum_to(op("Unsqueeze", a, [-1]) * op("Unsqueeze", g, [-2]), b) if b.rank > 1 else g * a
    if b.rank == 1:
        return sum_to(a * op("Unsqueeze", g, [-1]), b)
    if b.rank == 2:
        # One large product instead of many small ones that are summed afterwards.
        rows = reshape(a, join_sizes([-1, size_of(b, 0)], a)), reshape(g, join_sizes([-1, size_of(b, 1)], a))
        return op("Gemm", *(rows if a.rank > 2 else (a, g)), transA=1)
    return sum_to(swap_last(a) @ g, b)


def _gemm_a(g: Expr, y: Expr, a: Expr, b: Expr, c: Expr | None, *, alpha: float, transA: int, transB: int) -> Expr:
    if transA:
        return op("Gemm", b, g, alpha=alpha, transA=transB, transB=1)
    return op("Gemm", g, b, alpha=alpha, transB=1 - transB)


def _gemm_b(g: Expr, y: Expr, a: Expr, b: Expr, c: Expr | None, *, alpha: float, transA: int, transB: int) -> Expr:
    if transB:
        return op("Gemm", g, a, alpha=alpha, transA=1, transB=transA)
    return op("Gemm", a, g, alpha=alpha, transA=1 - transA)


def _gemm_c(g: Expr, y: Expr, a: Expr, b: Expr, c: Expr, *, beta: float) -> Expr:
    return sum_to(g if beta == 1 else g * beta, c)


def _einsum(g: Expr, y: Expr, *inputs: Expr, equation: str, at: Any) -> tuple[Expr | None, ...]:
    terms, result = _explicit(equation, [x.rank for x in inputs])
    return tuple(
        _einsum_input(g, result, list(inputs), terms, index) if at.needs(index) else None
        for index in range(len(inputs))
    )


def _explicit(equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """The terms with every index written out: an implicit result and ellipses get letters of their own."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    dots = max(
        (rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True) if "..." in term),
        default=0,
    )
    spare = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if letter not in equation]
    ellipsis = "".join(spare[:dots])
    if not arrow:
        letters = sorted(set(left) - set(".,"))
        right = ("..." if "..." in left else "") + "".join(x for x in letters if left.count(x) == 1)
    written = []
    for term, rank in zip(terms, ranks, strict=True):
        missing = rank - len(term.replace("...", ""))
        written.append(term.replace("...", ellipsis[dots - missing :] if missing else ""))
    return written, right.replace("...", ellipsis)


def _einsum_input(g: Expr, result: str, inputs: list[Expr], terms: list[str], index: int) -> Expr:
    """g and the other inputs, contracted to the indices of this one; an index met twice is put on a diagonal."""
    x, term = inputs[index], terms[index]
    others = [(t, v) for i, (t, v) in enumerate(zip(terms, inputs, strict=True)) if i != index]
    operands = [(result, g), *others]
    used = set("".join(t for t, _ in (*operands, (term, x))))
    spare = iter(sorted(set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") - used))
    target = ""
    for axis, letter in enumerate(term):
        if letter in target:
            new = next(spare)
            operands.append((letter + new, _identity(x, axis)))
            letter = new
        target += letter
    available = set("".join(t for t, _ in operands))
    kept = "".join(letter for letter in target if letter in available)
    equation = ",".join(t for t, _ in operands) + "->" + kept
    found = op("Einsum", *(v for _, v in operands), equation=equation)
    missing = [axis for axis, letter in enumerate(target) if letter not in available]
    if missing:  # an index that only this input has: it was summed away, so the gradient is the same along it
        found = expand_like(op("Unsqueeze", found, missing), x)
    return sum_to(found, x)


def _identity(x: Expr, axis: int) -> Expr:
    size = size_of(x, axis)
    zeros = op("ConstantOfShape", join_sizes([size, size], x), value=ir.tensor([0.0], dtype=ir.DataType.FLOAT))
    return op("EyeLike", zeros, dtype=int(x.dtype))


RULES: dict[str, Any] = {
    "MatMul": (_matmul_left, _matmul_right),
    "Gemm": (_gemm_a, _gemm_b, _gemm_c),
    "Einsum": _einsum,
}

ZERO = {"MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "EyeLike"}
