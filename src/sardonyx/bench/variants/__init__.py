"""What can be measured: one file per runtime, which is also its prefix on the command line, as `openvino:model.onnx`.

A plugin has `REQUIRES` (the extra), `accepts(source)` (whether it takes what comes without a prefix) and
`opened(source, how)`, a context manager that gives a `Variant`.
"""
