"""Products of matrices."""

from __future__ import annotations

from gradient_cases._values import normal, torch_op
from gradient_certify import Case, case

CASES: list[Case] = [
    case("MatMul", normal(2, 3), normal(3, 4), torch=torch_op("matmul")),
    case("MatMul", normal(2, 5, 3), normal(3, 4), name="batch by matrix", torch=torch_op("matmul")),
    case("MatMul", normal(2, 1, 5, 3), normal(4, 3, 2), name="batches repeat", torch=torch_op("matmul")),
    case("MatMul", normal(5, 3), normal(4, 3, 2), name="matrix by batch", torch=torch_op("matmul")),
    case("MatMul", normal(3), normal(3), name="vectors", torch=torch_op("matmul")),
    case("MatMul", normal(2, 4, 3), normal(3), name="batch by vector", torch=torch_op("matmul")),
    case("MatMul", normal(3), normal(2, 3, 4), name="vector by batch", torch=torch_op("matmul")),
    *(
        case(
            "Gemm",
            normal(*((3, 2) if ta else (2, 3))),
            normal(*((4, 3) if tb else (3, 4))),
            normal(*shape),
            name=f"{ta}{tb}",
            alpha=0.5,
            beta=1.5,
            transA=ta,
            transB=tb,
            torch=lambda a, b, c, ta=ta, tb=tb: 0.5 * (a.T if ta else a) @ (b.T if tb else b) + 1.5 * c,
        )
        for ta, tb, shape in ((0, 0, (4,)), (0, 1, (2, 1)), (1, 0, (2, 4)), (1, 1, ()))
    ),
    case("Gemm", normal(2, 3), normal(3, 4), name="no bias", torch=torch_op("matmul")),
    *(
        case(
            "Einsum",
            *(normal(*s) for s in shapes),
            name=equation,
            equation=equation,
            torch=None if "->" not in equation else lambda *x, e=equation: __import__("torch").einsum(e, *x),
        )
        for equation, shapes in (
            ("ij,jk->ik", ((2, 3), (3, 4))),
            ("bij,bkj->bik", ((2, 3, 4), (2, 5, 4))),
            ("ij->i", ((2, 3),)),
            ("ij,j", ((2, 3), (3,))),
            ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5))),
            ("ii->i", ((3, 3),)),
            ("ii", ((3, 3),)),
            ("i,j->ij", ((2,), (3,))),
            ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4))),
            ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 2))),
        )
    ),
]
