"""Runs a worker file in any Python that has its framework: JSON lines in, JSON lines out. Needs the standard library and numpy.

    python _harness.py worker.py

Tasks: `open` (a source), `describe`, `predict` (a list of .npz files), `branches` (what `predict` with `cover` saw of the model's
code), `steadiness` (does it answer alike when it is asked again), `export` (a route); for a benchmark `prepare` (one .npz),
`time` (so many calls) and `peak` (memory). Arrays travel in .npz files.
"""

import os
import sys

# Workers are named like their frameworks; this folder must not hide the frameworks from `import`.
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]

import contextlib
import gc
import importlib
import importlib.util
import json
import random
import threading
import time
import traceback
import types


def beside(name):
    """A file of this folder as a module, whether this one is run by its path or imported as part of Sardonyx."""
    known = "sardonyx" + name
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, os.path.join(HERE, name + ".py"))
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


_confined, _clock = beside("_confined"), beside("_clock")
if __name__ == "__main__":
    _confined.add_folders()

import numpy


def main():
    # The framework may print: its stdout becomes stderr, and answers go to the original stdout.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker, held = None, {}
    if len(sys.argv) > 2:
        _confined.confine(json.loads(sys.argv[2]))
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    for line in sys.stdin:
        request = json.loads(line)
        started = time.perf_counter()
        try:
            worker = worker or import_worker(sys.argv[1])
            answer = {"ok": True, **TASKS[request["do"]](worker, held, request)}
        except Exception as error:
            answer = {"ok": False, "error": describe_error(error)}
        if _confined.ATTEMPTS:
            answer = {"ok": False, "error": describe_error(_confined.escape())}
        answer["seconds"] = time.perf_counter() - started
        answer["processor"] = time.process_time()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _end_with(parent):
    """Ends the process once the one that started it is gone: a model in an endless loop would not notice."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(1)


def import_worker(path):
    """The worker as part of a package of its own, so that it can import its siblings by `from ._interface import ...`."""
    package = types.ModuleType("sardonyx_workers")
    package.__path__ = [os.path.dirname(os.path.abspath(path)), HERE]
    sys.modules[package.__name__] = package
    return importlib.import_module(package.__name__ + "." + os.path.basename(path)[: -len(".py")])


def open_source(worker, held, request):
    source = request["source"]
    # A factory that draws random weights must draw the same ones in every process that opens it.
    reseed(worker, 0)
    _confined.watch()
    held["model"] = worker.adopt(built(source), source) if source["form"] == "factory" else worker.load(source)
    return {"versions": versions(worker)}


def built(source):
    """What `file.py:name` or `package.module:name` stands for; functions and classes are called."""
    path, name = source["path"], source["attribute"]
    if path.endswith(".py"):
        import_from(os.path.dirname(os.path.abspath(path)))
        module = importlib.import_module(os.path.basename(path)[: -len(".py")])
    else:
        import_from(os.getcwd())
        module = importlib.import_module(path)
    if not hasattr(module, name):
        raise AttributeError(
            f"{path} has no '{name}'; it has {', '.join(n for n in vars(module) if not n.startswith('_'))}"
        )
    found = getattr(module, name)
    return found() if isinstance(found, type) or type(found).__name__ == "function" else found


def import_from(folder):
    """Imports also look into the folder of the user's code: after the standard library, before what is installed."""
    installed = [i for i, entry in enumerate(sys.path) if os.path.basename(entry) in ("site-packages", "dist-packages")]
    sys.path.insert(installed[0] if installed else len(sys.path), folder)


def describe(worker, held, request):
    return {"description": worker.describe(held["model"])}


def predict(worker, held, request):
    coverage = coverage_of(worker, held["model"], held) if request.get("cover") else None
    return {
        "outputs": predict_files(
            worker, held["model"], request["inputs"], request.get("double", False), coverage, request.get("limit")
        )
    }


def coverage_of(worker, model, held):
    """The record of which branches of the model's code have run, kept from call to call."""
    if "coverage" not in held:
        coverage = importlib.import_module("." + "_coverage", worker.__package__)
        watches = worker.watches(model) if hasattr(worker, "watches") else is_user_code
        held["coverage"] = coverage.Coverage(watches)
    return held["coverage"]


def branches(worker, held, request):
    coverage = held.get("coverage")
    if coverage is None:
        return {"branches": [], "numbers": []}
    return {"branches": coverage.branches(), "numbers": coverage.numbers()}


def steadiness(worker, held, request):
    return {"steadiness": steadiness_of(worker, held["model"], read_arrays(request["inputs"]))}


def steadiness_of(worker, model, inputs):
    """{"random": outputs, "state": outputs}: those that change when only the seeds differ, or when nothing does."""
    if hasattr(worker, "steadiness"):
        return worker.steadiness(model, inputs)
    answers = []
    for number in (1, 1, 2):
        reseed(worker, number)
        answers.append(worker.predict(model, dict(inputs)))
    found = differences(*answers)
    if not found["state"]:
        with contextlib.suppress(Exception):  # an original may refuse other values
            worker.predict(model, other_values(inputs))
        reseed(worker, 1)
        found["state"] = differences(answers[0], worker.predict(model, dict(inputs)), answers[0])["state"]
    reseed(worker, 0)
    return found


def other_values(inputs):
    """Inputs of the same shapes with other values: a model may keep what it sees first, or the largest."""
    return {
        name: (array * 10 + 1).astype(array.dtype)
        if array.dtype.kind == "f"
        else array[::-1].copy()
        if array.ndim
        else array
        for name, array in inputs.items()
    }


def differences(first, again, reseeded):
    """The outputs that differ between two calls with the same seeds, and between two with other seeds."""
    state = [name for (name, one), (_, two) in zip(first, again) if not alike(one, two)]
    drawn = [name for (name, one), (_, two) in zip(first, reseeded) if not alike(one, two)]
    return {"state": state, "random": [name for name in drawn if name not in state]}


def alike(one, two):
    """Whether two answers are the same but for the order in which threads add up."""
    one, two = numpy.asarray(one), numpy.asarray(two)
    if one.shape != two.shape or one.dtype != two.dtype:
        return False
    if one.dtype.kind not in "fc" or not one.size:
        return numpy.array_equal(one, two)
    finite = numpy.abs(one[numpy.isfinite(one)])
    size = float(finite.max()) if finite.size else 0.0
    return numpy.allclose(one, two, rtol=1e-5, atol=1e-6 * size, equal_nan=True)


def reseed(worker, number):
    """Makes everything that draws random numbers draw the same ones again."""
    random.seed(number)
    numpy.random.seed(number)
    if hasattr(worker, "seed"):
        worker.seed(number)


def export(worker, held, request):
    options = dict(request["options"])
    options["inputs"] = read_arrays(options.pop("example"))
    notes = worker.export(held["model"], request["route"], request["out"], **options)
    return {"notes": notes or {}}


def prepare(worker, held, request):
    """Makes the call that `time` repeats: the worker's own, with the inputs in the framework's form, or its `predict`."""
    held["call"] = prepared(worker, held["model"], read_arrays(request["inputs"]), request["options"])
    return {}


def prepared(worker, model, inputs, options):
    if hasattr(worker, "prepare"):
        return worker.prepare(model, inputs, **options)
    return lambda: worker.predict(model, inputs)


def time_calls(worker, held, request):
    return {"taken": seconds_of(held["call"], request["repeats"])}


def seconds_of(call, repeats):
    """The seconds of each call. The collector waits until all are done."""
    marks, clock, collects = [0.0] * (repeats + 1), time.perf_counter, gc.isenabled()
    gc.disable()
    try:
        marks[0] = clock()
        for index in range(1, repeats + 1):
            call()
            marks[index] = clock()
    finally:
        if collects:
            gc.enable()
    return numpy.diff(marks).tolist()


def peak(worker, held, request):
    """The most memory that this process has held, in bytes; None where the system does not say."""
    if os.path.exists("/proc/self/status"):  # what getrusage says on Linux includes the parent, from before the exec
        with open("/proc/self/status") as status:
            sizes = [line.split()[1] for line in status if line.startswith("VmHWM")]
        return {"peak": int(sizes[0]) * 1024 if sizes else None}
    try:
        import resource
    except ImportError:  # Windows
        return {"peak": None}
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"peak": most if sys.platform == "darwin" else most * 1024}


TASKS = {
    "open": open_source, "describe": describe, "predict": predict, "branches": branches, "steadiness": steadiness,
    "export": export, "prepare": prepare, "time": time_calls, "peak": peak,
}  # fmt: skip


def predict_files(worker, model, paths, double, coverage=None, limit=None):
    """For every .npz of inputs, the .npz of outputs beside it, or the error of that batch.

    With `coverage`, also the branches that the batch reached; with `limit`, no batch may take more seconds than that.
    """
    results = []
    for path in paths:
        try:
            outputs, seen = answer(worker, model, read_arrays(path), double, coverage, limit)
        except Exception as error:
            results.append({"error": describe_error(error)})
            continue
        target = path[: -len(".npz")] + (".double" if double else "") + ".out.npz"
        numpy.savez(target, **{f"{index:04}": plain_array(array) for index, (_, array) in enumerate(outputs)})
        results.append({"path": target, "names": [name for name, _ in outputs], **seen})
    return results


def answer(worker, model, inputs, double=False, coverage=None, limit=None):
    """The model's outputs, and what was seen of its code: {"reached": [[branch, outcome]], "gaps": {branch: numbers}}."""
    started = time.process_time()  # which a busy machine does not lengthen
    with _clock.within(limit):
        if coverage is None:
            return worker.predict(model, inputs, double=double), {"seconds": time.process_time() - started}
        outputs = coverage.run(
            lambda: worker.predict(model, inputs, double=double), any(map(_has_nan, inputs.values()))
        )
    seen = {"reached": sorted(coverage.reached), "gaps": coverage.gaps, "seconds": time.process_time() - started}
    return outputs, seen


def _has_nan(array):
    return array.dtype.kind == "f" and bool((array != array).any())


def read_arrays(path):
    with numpy.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def plain_array(array):
    """An array that .npz holds without pickle: Python strings become a fixed-width type."""
    array = numpy.asarray(array)
    return array.astype(str) if array.dtype == object else array


def versions(worker):
    from importlib import metadata

    found = {}
    for name in worker.DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def describe_error(error):
    """Type, message, the innermost line of the user's own code (or what the worker says it is), the end of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if is_user_code(f.filename)]
    where = f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else ""
    tail = traceback.format_exception(type(error), error, error.__traceback__)[-6:]  # as Python 3.9 takes it
    return {
        "type": type(error).__name__,
        "message": str(error),
        "where": getattr(error, "where", "") or where,
        "hint": getattr(error, "hint", "") or _confined.hint(error),
        "traceback": "".join(tail)[-4000:],
    }


def is_user_code(filename):
    library = "site-packages" in filename or os.path.join("lib", "python") in filename
    ours = (
        os.path.dirname(os.path.dirname(HERE)) + os.sep
    )  # the whole of sardonyx, which calls a live object in process
    return not library and not filename.startswith((ours, "<"))


if __name__ == "__main__":
    main()
