"""Activations and the softmax family."""

from __future__ import annotations

from gradient_cases._values import away, functional, normal, torch_op
from gradient_certify import Case, case

CASES: list[Case] = [
    case("Relu", away(3, 4), torch=torch_op("relu")),
    case("LeakyRelu", away(3, 4), alpha=0.2, torch=torch_op("leaky_relu", 0.2)),
    case("PRelu", away(2, 3, 4), normal(3, 1), torch=lambda x, s: functional().prelu(x, s.reshape(-1))),
    case("PRelu", away(2, 3), normal(1), name="one slope", torch=torch_op("prelu")),
    case("ThresholdedRelu", away(3, 4), alpha=1.0, torch=lambda x: functional().threshold(x, 1.0, 0.0)),
    case("Elu", away(3, 4), alpha=1.3, torch=torch_op("elu", 1.3)),
    case("Celu", away(3, 4), alpha=1.3, torch=torch_op("celu", 1.3), single=True),
    case("Selu", away(3, 4), torch=torch_op("selu")),
    case("Gelu", normal(3, 4), torch=torch_op("gelu")),
    case(
        "Gelu", normal(3, 4), name="tanh", approximate="tanh", torch=lambda x: functional().gelu(x, approximate="tanh")
    ),
    case("Mish", normal(3, 4), torch=torch_op("mish")),
    case("Swish", normal(3, 4), alpha=1.0, torch=torch_op("silu")),
    case("Swish", normal(3, 4), name="alpha", alpha=1.7),
    case("HardSigmoid", away(3, 4), alpha=1 / 6, beta=0.5, torch=torch_op("hardsigmoid")),
    case("HardSwish", away(3, 4), torch=torch_op("hardswish")),
    case("Sigmoid", normal(3, 4), torch=torch_op("sigmoid")),
    case("Tanh", normal(3, 4), torch=torch_op("tanh")),
    case("Softplus", normal(3, 4), torch=torch_op("softplus")),
    case("Softsign", away(3, 4), torch=torch_op("softsign")),
    case("Shrink", away(3, 4), lambd=1.0, bias=1.0, torch=torch_op("softshrink", 1.0)),
    case("Softmax", normal(2, 3, 4), axis=-1, torch=torch_op("softmax", -1)),
    case("Softmax", normal(2, 3, 4), name="inner axis", axis=1, torch=torch_op("softmax", 1)),
    case("LogSoftmax", normal(2, 3, 4), axis=1, torch=torch_op("log_softmax", 1)),
]
