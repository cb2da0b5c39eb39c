"""A TFLite file in its interpreter."""

import tensorflow as tf

from ._tensors import stripped, to_spec


class Lite:
    """Runs a TFLite file. Quantised models take and give their integers."""

    model, outputs, specs = None, None, ()

    def __init__(self, path):
        self.path = path
        self.interpreter = tf.lite.Interpreter(path)
        self.interpreter.allocate_tensors()
        names = self._signature()
        inputs, outputs = self.interpreter.get_input_details(), self.interpreter.get_output_details()
        self.specs = {names.get(detail["index"], stripped(detail["name"])): detail for detail in inputs}
        self.answers = {names.get(detail["index"], stripped(detail["name"])): detail for detail in outputs}

    def run(self, named):
        """[(name, array)] of the outputs in the order of the file."""
        for name, detail in self.specs.items():
            self.interpreter.resize_tensor_input(detail["index"], named[name].shape)
        self.interpreter.allocate_tensors()
        for name, detail in self.specs.items():
            self.interpreter.set_tensor(detail["index"], named[name].numpy())
        self.interpreter.invoke()
        return [(name, self.interpreter.get_tensor(detail["index"])) for name, detail in self.answers.items()]

    def prepare(self, named, threads=None):
        """A call that sets the inputs, runs, and takes the outputs, in an interpreter of its own with so many threads."""
        twin = tf.lite.Interpreter(self.path, num_threads=threads)
        for name, detail in self.specs.items():
            twin.resize_tensor_input(detail["index"], named[name].shape)
        twin.allocate_tensors()
        places = [(detail["index"], named[name]) for name, detail in self.specs.items()]
        wanted = [detail["index"] for detail in self.answers.values()]

        def answer():
            for index, array in places:
                twin.set_tensor(index, array)
            twin.invoke()
            return [twin.get_tensor(index) for index in wanted]

        return answer

    def describe(self):
        """Inputs and outputs; a quantised one has its `scale` and `zero_point`."""
        return {"inputs": list(map(_spec, self.specs.items())), "outputs": list(map(_spec, self.answers.items()))}

    def _signature(self):
        """Tensor index -> the name it has in the only signature."""
        if len(self.interpreter.get_signature_list()) != 1:
            return {}
        runner = self.interpreter.get_signature_runner()
        sides = {**runner.get_input_details(), **runner.get_output_details()}
        return {detail["index"]: name for name, detail in sides.items()}


def _spec(item):
    name, detail = item
    sizes = [None if size < 0 else int(size) for size in detail["shape_signature"]]
    scale, zero_point = detail["quantization"]
    quantised = {"scale": float(scale), "zero_point": int(zero_point)} if scale else {}
    return {**to_spec(name, detail["dtype"], sizes), **quantised}
