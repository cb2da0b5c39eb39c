"""Boosters inside scikit-learn pipelines: skl2onnx converts the pipeline, and this the booster."""

import numpy
from onnx import helper

from ._boosters import ensemble_of, is_classifier, library
from ._tree_graph import graph_of


def know_boosters(parts):
    """Tells skl2onnx how to convert the boosters among the parts of a pipeline."""
    for cls in {type(part) for part in parts if library(part) != "sklearn"}:
        _register(cls)


def _register(cls):
    from skl2onnx import update_registered_converter
    from skl2onnx.common import shape_calculator

    classifier = hasattr(cls, "predict_proba")
    shapes = f"calculate_linear_{'classifier' if classifier else 'regressor'}_output_shapes"
    options = {"nocl": [True, False], "zipmap": [True, False, "columns"]} if classifier else None
    update_registered_converter(
        cls,
        "Sardonyx" + cls.__name__,
        getattr(shape_calculator, shapes),
        convert_booster,
        overwrite=True,
        options=options,
    )


def convert_booster(scope, operator, container):
    """Puts the graph of the ensemble into skl2onnx's container, under names of its own."""
    model = operator.raw_operator
    classes = numpy.asarray(model.classes_) if is_classifier(model) else None
    double = type(operator.inputs[0].type).__name__ == "DoubleTensorType"
    opset = container.target_opset_any_domain("")
    graph = graph_of(ensemble_of(model), classes=classes, opset=opset, double=double, input_name="X").graph
    names = {"X": operator.inputs[0].full_name}
    names.update(zip((value.name for value in graph.output), (value.full_name for value in operator.outputs)))
    for tensor in graph.initializer:
        names[tensor.name] = tensor.name = scope.get_unique_variable_name("booster_" + tensor.name)
        container.initializers.append(tensor)
    for node in graph.node:
        for output in node.output:
            if output not in names:
                names[output] = scope.get_unique_variable_name("booster_" + output)
        container.add_node(
            node.op_type,
            [names[name] for name in node.input],
            [names[name] for name in node.output],
            op_domain=node.domain,
            op_version=3 if node.domain else opset,
            name=scope.get_unique_operator_name("booster"),
            **{attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute},
        )
