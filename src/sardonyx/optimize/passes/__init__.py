"""One pass per file, in onnx_ir's form; each says what it replaces, and why it declined."""
