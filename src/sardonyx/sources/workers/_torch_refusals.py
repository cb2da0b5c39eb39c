"""Why an exporter refused, in one line: what, where in the user's code, and which route or opset would take it."""

import os
import re
import sysconfig
import traceback

import torch

from ._torch_meanings import MEANINGS


class Refused(RuntimeError):
    """A refusal in plain words. `where` is file:line of the user's code, `hint` the next step."""

    def __init__(self, message, *, hint="", where=""):
        super().__init__(message)
        self.hint, self.where = hint, where


# How torch points at a line of Python in its messages.
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_OPERATOR = re.compile(r"Exporting the operator '([^']+)'")
LONGEST = 240
_MARKER = "<--- HERE"  # under the piece of code that the TorchScript compiler stopped at
_COLOUR = re.compile(r"\x1b\[\d+m")
_PYTHON = os.path.realpath(sysconfig.get_paths()["stdlib"]) + os.sep
_OURS = tuple(os.path.dirname(os.path.realpath(path)) + os.sep for path in (torch.__file__, __file__))
_EXPORTERS = tuple(os.path.join("site-packages", name, "") for name in ("onnxscript", "onnx_ir", "onnx", "numpy"))


def refusal(error, route, job, held):
    """The refusal that an exporter's error amounts to."""
    chain = _chain(error)
    text = "\n".join(f"{type(link).__name__}: {_COLOUR.sub('', str(link))}" for link in chain)
    where = _place_in(text) or _place_of(chain) or _place_of_operator(text, route, job, held)
    for pattern, sentence in MEANINGS:
        found = re.search(pattern, text)
        if found:
            return Refused(sentence.format(*found.groups(), route=route, input=_input(found, job)), where=where)
    said = first_words(chain[-1])
    if route == "script" and _MARKER in text and not type(chain[-1]).__module__.startswith("torch.onnx"):
        said = f"TorchScript cannot compile the code: {said}; routes dynamo and trace do not compile it"
    return Refused(said, where=where)


def _chain(error):
    """The error and its causes, the deepest last."""
    chain = [error]
    while chain[-1].__cause__ is not None and chain[-1].__cause__ not in chain:
        chain.append(chain[-1].__cause__)
    return chain


def first_words(error):
    """An error's own first sentence, without the code and the advice that torch adds to it."""
    text = _COLOUR.sub("", str(error)).strip()
    ran = re.search(r"(?s)failed in the TorchScript interpreter.*\n(?:\w+\.)*\w*(?:Error|Exception): (.+)", text)
    text = ran[1] if ran else text
    cut = re.match(
        r'(?s)(.+?):?\s*(?:\n\s*File "|\n\n|Here are some suggestions|\[Caused by the value|The original call is)', text
    )
    first = " ".join((cut[1] if cut else text).split()).rstrip(".")
    return f"{type(error).__name__}: {_shortened(first)}" if first else type(error).__name__


def _shortened(text):
    """A long text up to the end of a sentence, or else of a word."""
    if len(text) <= LONGEST:
        return text
    sentences = text[:LONGEST].rpartition(". ")[0]
    return sentences if len(sentences) > LONGEST // 3 else text[: LONGEST - 2].rpartition(" ")[0] + " …"


def _input(found, job):
    """The name of the input that a message calls by its position."""
    position = found[2] if found.re.groups > 1 else None
    return (
        job.inputs[int(position)] if position and position.isdigit() and int(position) < len(job.inputs) else "an input"
    )


def _place_in(text):
    places = [f"{name}:{line}" for name, line in _PLACE.findall(text) if is_users(name)]
    return places[-1] if places else ""


def _place_of(chain):
    for link in reversed(chain):
        frames = [f for f in traceback.extract_tb(link.__traceback__) if is_users(f.filename)]
        if frames:
            return f"{frames[-1].filename}:{frames[-1].lineno}"
    return next((place for link in chain for place in _places_of_nodes(link) if place), "")


def _places_of_nodes(error):
    """Where the user's code made the nodes that the exporter had in hand when it stopped: its own frames hold them."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        node = frame.f_locals.get("node")
        if isinstance(node, torch.fx.Node):
            yield _place_in(node.meta.get("stack_trace") or "")


def _place_of_operator(text, route, job, held):
    """Where the user's code calls the operator that has no ONNX form: the compiled or recorded graph knows."""
    operator = _OPERATOR.search(text)
    if operator is None:
        return ""
    from ._torch_routes import flat

    try:
        if held.scripted:
            graph = held.module.inlined_graph
        elif route == "script":
            graph = torch.jit.script(held.fresh()).inlined_graph
        else:
            model = held.fresh()
            with flat(model, job.call):
                graph = torch.jit.trace(model, tuple(job.tensors), check_trace=False).inlined_graph
    except Exception:  # only the place is lost; the reason stands
        return ""
    ranges = [node.sourceRange() for node in graph.findAllNodes(operator[1])]
    found = (_place_in(text) or _first_range(text) for text in ranges)
    return next((place for place in found if place), "")


def _first_range(text):
    found = re.search(r"^(\S+\.py)\((\d+)\)", text, re.MULTILINE)
    return f"{found[1]}:{found[2]}" if found and is_users(found[1]) else ""


def is_users(filename):
    """Whether a file is neither PyTorch's, nor Python's, nor an exporter's, nor ours. An installed model is the user's."""
    if filename.startswith(("<", "code/")):  # code/ is inside a TorchScript file
        return False
    path = os.path.realpath(filename)
    if path.startswith(_OURS) or any(name in path for name in _EXPORTERS):
        return False
    return "site-packages" in path or not path.startswith(_PYTHON)
