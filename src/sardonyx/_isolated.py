"""Starts one of our modules in an interpreter that takes no file from the current folder.

    python -I _isolated.py ends sardonyx.check._load

`-I` leaves out the current folder, the folder of this script, the user's own site folder and the variables PYTHON*. This very
copy of Sardonyx is used, wherever it lies. Folders that the user put on the path come after the standard library.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    import runpy

    if sys.argv.pop(1) == "ends":
        end_with_parent()
    name = sys.argv.pop(1)
    add_folders()
    adopt()
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def adopt() -> None:
    """`import sardonyx` gives the package that this file is part of. Its folder does not come on the path with it."""
    import importlib.util

    path = os.path.join(HERE, "__init__.py")
    spec = importlib.util.spec_from_file_location("sardonyx", path, submodule_search_locations=[HERE])
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["sardonyx"] = package
    spec.loader.exec_module(package)


def add_folders() -> None:
    """What the user put on the path, after the standard library; without the current folder, which relative entries mean."""
    import site

    here = os.path.realpath(os.getcwd())
    named = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    folders = [folder for folder in named if os.path.isabs(folder) and os.path.realpath(folder) != here]
    if "PYTHONNOUSERSITE" not in os.environ:
        folders.append(site.getusersitepackages())
    known = [folder for folder in folders if os.path.isdir(folder) and folder not in sys.path]
    installed = [place for place, folder in enumerate(sys.path) if folder.endswith("-packages")]
    at = installed[0] if installed else len(sys.path)
    sys.path[at:at] = known


def end_with_parent() -> None:
    """The process ends with the thread that started it, however that ends; on Linux."""
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    parent = os.getppid()
    death_signal = 1  # PR_SET_PDEATHSIG
    ctypes.CDLL(None).prctl(death_signal, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main()
