"""The columns that an estimator takes: their names, places and types, and the table made of them."""

import numpy

ENCODERS = ("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")
TEXT = ("CountVectorizer", "TfidfVectorizer", "HashingVectorizer")
LABEL_TRANSFORMERS = ("LabelEncoder", "LabelBinarizer")


def table_of(model, inputs, double):
    """The inputs as the estimator takes them: a matrix, a list of texts, or a data frame."""
    arrays = {name: _column_type(array, double) for name, array in inputs.items()}
    if len(arrays) > 1:
        return _frame({name: array.ravel() for name, array in arrays.items()}, None)
    array = next(iter(arrays.values()))
    if is_text(first_step(model)) or type(first_step(model)).__name__ in LABEL_TRANSFORMERS:
        return array.ravel()
    return _frame(array, list(model.feature_names_in_)) if hasattr(model, "feature_names_in_") else array


def _column_type(array, double):
    if array.dtype.kind in "US":
        return array.astype(object)
    return array.astype(numpy.float64) if double and array.dtype.kind == "f" else array


def _frame(values, columns):
    import pandas

    return pandas.DataFrame(values, columns=columns)


def inputs_of(model):
    """One matrix `X`, or one input per column where columns differ in type or are chosen by name."""
    first = first_step(model)
    if is_text(first):
        return [_input("X", True, 1)]
    if type(first).__name__ in LABEL_TRANSFORMERS:
        words = numpy.asarray(first.classes_).dtype.kind in "OUS"
        return [{"name": "X", "dtype": "string" if words else "int64", "shape": ["batch"]}]
    width = getattr(model, "n_features_in_", None)
    names = list(map(str, getattr(model, "feature_names_in_", ())))
    strings = string_columns(first, names, width or 0)
    if names and (strings or type(first).__name__ == "ColumnTransformer"):
        return [_input(name, index in strings, 1) for index, name in enumerate(names)]
    if strings and len(strings) < width:
        return [_input(f"x{index}", index in strings, 1) for index in range(width)]
    if width is None:
        return [{"name": "X", "dtype": "float32", "shape": ["batch"]}]
    return [_input("X", bool(strings), width)]


def _input(name, is_string, width):
    return {"name": name, "dtype": "string" if is_string else "float32", "shape": ["batch", width]}


def first_step(model):
    """The part of a pipeline that sees the raw input."""
    while hasattr(model, "steps"):
        model = next((step for _, step in model.steps if step not in (None, "passthrough")), model.steps[-1][1])
    return model


def string_columns(transformer, names, width):
    """The positions of the input columns that hold strings, told from the categories that were learned."""
    name = type(transformer).__name__
    if name == "ColumnTransformer":
        return {column for part in transformer.transformers_ for column in _strings_of_part(part, names, width)}
    if hasattr(transformer, "transformer_list"):  # of a union, each of whose parts sees all columns
        parts = [first_step(part) for _, part in transformer.transformer_list if hasattr(part, "fit")]
        return {column for part in parts for column in string_columns(part, names, width)}
    if name in ENCODERS:
        return {i for i, known in enumerate(transformer.categories_) if numpy.asarray(known).dtype.kind in "OUS"}
    flags = getattr(transformer, "is_categorical_", None)  # of a histogram gradient boosting
    if flags is not None and getattr(transformer, "_preprocessor", None) is not None:
        lists = transformer._preprocessor.named_transformers_["encoder"].categories_
        places = numpy.flatnonzero(flags).tolist()
        return {place for place, known in zip(places, lists) if numpy.asarray(known).dtype.kind in "OUST"}
    if name == "SimpleImputer" and transformer.statistics_.dtype == object:
        return set(range(width))
    return set()


def _strings_of_part(part, names, width):
    _, transformer, columns = part
    if isinstance(transformer, str):
        return []
    chosen = positions(columns, names, width)
    inner = first_step(transformer)
    inside = range(len(chosen)) if is_text(inner) else string_columns(inner, [], len(chosen))
    return [chosen[index] for index in inside]


def positions(columns, names, width):
    """Column positions of a ColumnTransformer's selection, which may be a name, a position, a slice, a mask or a list."""
    if isinstance(columns, slice):
        if isinstance(columns.start, str) or isinstance(columns.stop, str):
            return list(range(names.index(columns.start or names[0]), names.index(columns.stop or names[-1]) + 1))
        return list(range(width))[columns]
    listed = [columns] if isinstance(columns, (str, int)) else list(columns)
    if listed and isinstance(listed[0], (bool, numpy.bool_)):
        return [index for index, chosen in enumerate(listed) if chosen]
    return [names.index(column) if isinstance(column, str) else int(column) for column in listed]


def is_text(step):
    """Whether a step takes texts: a vectorizer, or a union of them."""
    parts = getattr(step, "transformer_list", None)
    if parts:
        return all(is_text(first_step(part)) for _, part in parts if part not in ("drop", "passthrough"))
    return type(step).__name__ in TEXT
