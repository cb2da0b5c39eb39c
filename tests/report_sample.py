"""A report as ship writes it, in which every part of the page has something to show."""

from __future__ import annotations

from typing import Any

HOSTILE = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>\"'&{{body}}"


def ratio(middle: float, low: float, high: float, verdict: str = "faster") -> dict[str, Any]:
    return {"ratio": middle, "low": low, "high": high, "verdict": verdict}


def report(name: str = "digits.py:make") -> dict[str, Any]:
    """Every stage ran, one route was wrong, and the model was quantised but for two nodes."""
    return {
        "verb": "ship", "ok": True, "verdict": "shipped", "bundle": ".", "source": name, "summary": "model.onnx is faster",
        "stages": [_convert(name), _check(), _compare(), _optimize(), _quantize(name), _bench(), _golden()],
        "metrics": {"speed": {"of": "framework", "to": "model", "batch": 1, **ratio(2.61, 2.44, 2.8)}},
        "ledger": _ledger(name), "runs_on": _check()["runs_on"], "findings": [], "graph": None,
        "machine": {"cpu": "AMD EPYC", "features": {"AVX2": True, "AVX-512": False, "AVX-VNNI": False}, "threads": 2},
        "provenance": [
            {"stage": stage, "options": {"seed": 0, "name": name}, "inputs": {"source": "23d902764cefc8a2fb48"},
             "versions": {"sardonyx": "0.1.0", "onnxruntime": "1.31.1"}, "outputs": {"float.onnx": "176f42d02c32cc9a77"}}
            for stage in ("convert", "optimize")
        ],
    }  # fmt: skip


def _convert(name: str) -> dict[str, Any]:
    candidates = [
        {"route": "dynamo", "verdict": "agrees", "max_error": 1.8e-07, "tolerance": 1.3e-06, "counterexample": None,
         "reason": "", "seconds": 6.2},
        {"route": "script", "verdict": "agrees", "max_error": 1.8e-07, "tolerance": 1.3e-06, "counterexample": None,
         "reason": "", "seconds": 1.1},
        {"route": "trace", "verdict": "mismatch", "max_error": 0.97, "tolerance": 1.3e-06,
         "counterexample": f"probe 'sign flipped': x = -1.2 of {name}", "reason": "the branch of the example is frozen in",
         "seconds": 0.3},
    ]  # fmt: skip
    return {
        "stage": "convert", "ok": True, "verdict": "agrees", "route": "script", "candidates": candidates, "seconds": 8.1,
        "probes": ["the example", "sign flipped", "zeros"], "summary": "float.onnx by script, opset 18",
    }  # fmt: skip


def _check() -> dict[str, Any]:
    runs_on = [
        {"target": "cpu", "ok": True, "reason": "onnxruntime 1.31.1 loaded it in 0.04 s"},
        {"target": "web", "ok": False, "reason": "no kernel for Foo"},
    ]
    return {
        "stage": "check",
        "ok": True,
        "verdict": "ok",
        "runs_on": runs_on,
        "findings": [],
        "seconds": 0.5,
        "summary": "ok",
    }


def _compare() -> dict[str, Any]:
    outputs = [
        {
            "name": "logits",
            "verdict": "rounding",
            "error": 5.6e-07,
            "tolerance": 5.6e-06,
            "used": 0.1,
            "max_abs": 6.6e-07,
            "max_rel": 2.3e-04,
            "note": "",
        }
    ]
    return {
        "stage": "compare", "ok": True, "verdict": "rounding", "outputs": outputs, "first_divergence": None, "cases": 19,
        "noise": "float64", "seconds": 2.0, "summary": "rounding",
    }  # fmt: skip


def _optimize() -> dict[str, Any]:
    candidates = [
        {"name": "input", "verdict": "not-chosen", "reason": "", "nodes": 15, "bytes": 29997, "max_error": None,
         "speedup": ratio(1.0, 1.0, 1.0, "no-difference")},
        {"name": "sardonyx", "verdict": "winner", "reason": "", "nodes": 11, "bytes": 28100, "max_error": 0.0,
         "speedup": ratio(1.22, 1.15, 1.3)},
        {"name": "onnxsim", "verdict": "refused", "reason": "its answers differ by 0.3", "nodes": 9, "bytes": 27000,
         "max_error": 0.3, "speedup": None},
    ]  # fmt: skip
    return {
        "stage": "optimize", "ok": True, "verdict": "optimized", "winner": "sardonyx", "bytes_before": 29997,
        "bytes_after": 28100, "candidates": candidates, "seconds": 6.0, "summary": "15 nodes became 11",
    }  # fmt: skip


def _quantize(name: str) -> dict[str, Any]:
    rows = [
        ("static_u8s8 whole", "passed", "", 0.969, 0.003, ratio(1.83, 1.7, 1.96)),
        ("static_u8s8 products", "screened", "", 0.971, 0.001, ratio(1.41, 1.35, 1.5)),
        ("static_s8s8 joined", "rejected", "slower", 0.97, 0.002, ratio(0.72, 0.66, 0.8, "slower")),
        ("dynamic", "rejected", "no gain", 0.972, 0.0, ratio(1.0, 0.96, 1.04, "no-difference")),
        ("weight_int4", "rejected", "accuracy", 0.931, 0.041, ratio(1.1, 1.02, 1.19)),
        ("bf16", "not-tried", "no bfloat16 kernel for Gemm in onnxruntime on this CPU", None, None, None),
    ]
    candidates = [
        {"name": label, "scheme": label.split()[0], "verdict": verdict, "reason": reason, "metric": metric, "loss": loss,
         "before": None if metric is None else 0.972, "data": None if metric is None else "held-out",
         "speedup": speed, "size": 12000, "calibrator": "minmax"}
        for label, verdict, reason, metric, loss, speed in rows
    ]  # fmt: skip
    return {
        "stage": "quantize", "ok": True, "verdict": "quantized", "scheme": "static_u8s8", "candidate": "static_u8s8 whole",
        "candidates": candidates,
        "metric": {"name": "accuracy", "before": 0.972, "after": 0.969, "budget": "1%"}, "speedup": ratio(1.83, 1.7, 1.96),
        "reverted": [{"node": f"{name}/head", "reason": "accuracy"}, {"node": "/stem/Conv", "reason": "slower"}],
        "seconds": 20.0, "summary": "static_u8s8 is 1.83 times as fast",
    }  # fmt: skip


def _bench() -> dict[str, Any]:
    names = {"framework": 3.1e-4, "float": 2.4e-4, "model": 1.2e-4}
    variants = [
        {"name": name, "batch": 1, "p50": p50, "p95": p50 * 1.2, "p99": p50 * 1.5, "throughput": 1 / p50,
         "memory": 62 << 20, "size": 29997 if name != "framework" else None}
        for name, p50 in names.items()
    ]  # fmt: skip
    ratios = [
        {"of": "framework", "to": "float", "batch": 1, **ratio(1.29, 1.22, 1.37), "p50_ratio": 3.1 / 2.4},
        {"of": "framework", "to": "model", "batch": 1, **ratio(2.61, 2.44, 2.8), "p50_ratio": 3.1 / 1.2},
    ]
    return {
        "stage": "bench", "ok": True, "verdict": "measured", "variants": variants, "ratios": ratios, "threads": 2,
        "seconds": 9.0, "summary": "model is faster",
    }  # fmt: skip


def _golden() -> dict[str, Any]:
    return {"stage": "golden", "ok": True, "verdict": "kept", "cases": 4, "seconds": 1.0, "summary": "4 golden cases"}


def _ledger(name: str) -> dict[str, Any]:
    stages = ["float", "optimized", "quantized"]
    nodes = []
    for index in range(24):
        error = {"float": 4e-8 * (1 + index / 9), "optimized": 5e-8 * (1 + index / 8)}
        if index % 7 != 3:
            error["quantized"] = 2e-3 * (1 + (index % 5)) * (1 + index / 12)
        added = {"float": error["float"], "optimized": error["optimized"] - error["float"]}
        if "quantized" in error:
            added["quantized"] = error["quantized"] - error["optimized"]
        nodes.append(
            {"node": f"{name}/{index}", "op_type": "Conv", "tensor": f"t{index}", "error": error, "added": added}
        )
    outputs = [
        {"name": "logits", "error": {"framework": 1e-7, "float": 1.2e-7, "optimized": 1.4e-7, "quantized": 0.011}}
    ]
    return {"stages": stages, "reference": "float64", "nodes": nodes, "outputs": outputs}
