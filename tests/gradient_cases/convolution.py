"""Convolutions."""

from __future__ import annotations

from typing import Any

from gradient_cases._values import functional, normal
from gradient_certify import Case, case


def _conv(**settings: Any) -> Any:
    def call(x: Any, w: Any, b: Any = None) -> Any:
        return getattr(functional(), f"conv{x.ndim - 2}d")(x, w, b, **settings)

    return call


def _conv_transpose(**settings: Any) -> Any:
    def call(x: Any, w: Any, b: Any = None) -> Any:
        return getattr(functional(), f"conv_transpose{x.ndim - 2}d")(x, w, b, **settings)

    return call


def _sized(op: str, *inputs: Any, **settings: Any) -> Case:
    """A convolution, whose weights have known sizes even where nothing else has."""
    return case(op, *inputs, sized=(1, 2), **settings)


CASES: list[Case] = [
    _sized("Conv", normal(2, 3, 5, 5), normal(4, 3, 3, 3), normal(4), torch=_conv()),
    _sized("Conv", normal(2, 2, 6), normal(3, 2, 3), name="1d", pads=[1, 1], torch=_conv(padding=1)),
    _sized("Conv", normal(1, 2, 3, 4, 3), normal(2, 2, 2, 2, 2), name="3d", torch=_conv()),
    _sized(
        "Conv",
        normal(2, 3, 7, 6),
        normal(4, 3, 3, 2),
        normal(4),
        name="strides leave some",
        strides=[2, 3],
        torch=_conv(stride=(2, 3)),
    ),
    _sized(
        "Conv",
        normal(2, 2, 7, 7),
        normal(3, 2, 3, 3),
        name="dilation",
        dilations=[2, 1],
        pads=[1, 0, 1, 0],
        torch=_conv(dilation=(2, 1), padding=(1, 0)),
    ),
    _sized(
        "Conv",
        normal(2, 4, 5, 5),
        normal(6, 2, 3, 3),
        normal(6),
        name="groups",
        group=2,
        pads=[1, 1, 1, 1],
        torch=_conv(groups=2, padding=1),
    ),
    _sized(
        "Conv",
        normal(2, 3, 6, 6),
        normal(3, 1, 3, 3),
        name="depthwise",
        group=3,
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        torch=_conv(groups=3, stride=2, padding=1),
    ),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 3, 3), name="uneven pads", pads=[0, 1, 2, 0]),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 2, 3), name="same upper", auto_pad="SAME_UPPER", strides=[2, 2]),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 2, 2), name="same lower", auto_pad="SAME_LOWER"),
    _sized("Conv", normal(2, 2, 5, 6), normal(3, 2, 2, 2), name="valid", auto_pad="VALID"),
    _sized("Conv", normal(3, 2, 2, 2), normal(8, 2, 1, 1), name="small images", torch=_conv()),
    # From 65 columns on the weights' gradient is found in other ways, by the sizes.
    _sized("Conv", normal(2, 8, 5, 6), normal(2, 8, 3, 3), name="many inputs", pads=[1, 0, 1, 2], dilations=[1, 2]),
    _sized("Conv", normal(1, 9, 5, 18), normal(2, 9, 2, 4), name="wide", second=False, torch=_conv()),
    _sized(
        "Conv",
        normal(1, 16, 4, 4),
        normal(2, 8, 3, 3),
        name="many inputs in groups",
        group=2,
        pads=[1, 1, 1, 1],
        second=False,
        torch=_conv(groups=2, padding=1),
    ),
    _sized("Conv", normal(1, 9, 2, 9), normal(2, 9, 2, 4), name="few rows", second=False, torch=_conv()),
    _sized(
        "Conv",
        normal(2, 8, 5, 4),
        normal(32, 8, 3, 3),
        name="many channels",
        pads=[1, 1, 1, 1],
        torch=_conv(padding=1),
    ),
    _sized(
        "Conv",
        normal(2, 8, 5, 6),
        normal(3, 8, 3, 3),
        name="many inputs apart",
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        torch=_conv(stride=2, padding=1),
    ),
    _sized("Conv", normal(1, 1, 8, 7), normal(2, 1, 6, 6), name="many places", second=False, torch=_conv()),
    _sized(
        "Conv",
        normal(1, 2, 12, 9),
        normal(2, 2, 6, 6),
        name="many places apart",
        strides=[3, 3],
        second=False,
        torch=_conv(stride=3),
    ),
    # More inputs than positions: on the way back the samples become one strip.
    _sized(
        "Conv",
        normal(2, 6, 2, 2),
        normal(8, 6, 3, 3),
        normal(8),
        name="strip",
        dynamic=False,
        pads=[1, 1, 1, 1],
        torch=_conv(padding=1),
    ),
    _sized("Conv", normal(3, 8, 3, 2), normal(9, 8, 3, 2), name="uneven strip", dynamic=False, pads=[2, 0, 0, 1]),
    _sized("ConvTranspose", normal(2, 3, 4, 4), normal(3, 2, 3, 3), normal(2), torch=_conv_transpose()),
    _sized(
        "ConvTranspose",
        normal(2, 2, 4),
        normal(2, 3, 3),
        name="1d",
        strides=[2],
        pads=[1, 1],
        output_padding=[1],
        torch=_conv_transpose(stride=2, padding=1, output_padding=1),
    ),
    _sized("ConvTranspose", normal(1, 2, 2, 3, 2), normal(2, 2, 2, 2, 2), name="3d", torch=_conv_transpose()),
    _sized(
        "ConvTranspose",
        normal(2, 4, 3, 3),
        normal(4, 2, 3, 3),
        name="groups",
        group=2,
        strides=[2, 2],
        dilations=[1, 2],
        torch=_conv_transpose(groups=2, stride=2, dilation=(1, 2)),
    ),
    _sized(
        "ConvTranspose",
        normal(1, 2, 3, 3),
        normal(2, 2, 3, 3),
        name="output shape",
        strides=[2, 2],
        output_shape=[6, 6],
        dynamic=False,
    ),
    _sized(
        "ConvTranspose",
        normal(1, 2, 3, 3),
        normal(2, 2, 3, 3),
        name="same",
        strides=[2, 2],
        auto_pad="SAME_UPPER",
        dynamic=False,
    ),
]
