"""The messages of inference.GRPCInferenceService, built from a table of their fields and numbers.

The numbers are those of the Open Inference Protocol and of Triton's extensions to it. They live in a pool of their own, so that a
client's generated code can be loaded beside them.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "inference"
_FIELD = descriptor_pb2.FieldDescriptorProto
_KINDS = {
    "bool": _FIELD.TYPE_BOOL, "int32": _FIELD.TYPE_INT32, "int64": _FIELD.TYPE_INT64, "uint32": _FIELD.TYPE_UINT32,
    "uint64": _FIELD.TYPE_UINT64, "float": _FIELD.TYPE_FLOAT, "double": _FIELD.TYPE_DOUBLE, "string": _FIELD.TYPE_STRING,
    "bytes": _FIELD.TYPE_BYTES,
}  # fmt: skip

# A message a line, then its fields as "number type name". * is repeated, {} a map from strings, | a part of a choice.
TABLE = """
ServerLiveRequest:
ServerLiveResponse: 1 bool live
ServerReadyRequest:
ServerReadyResponse: 1 bool ready
ModelReadyRequest: 1 string name, 2 string version
ModelReadyResponse: 1 bool ready
ServerMetadataRequest:
ServerMetadataResponse: 1 string name, 2 string version, 3 string* extensions
ModelMetadataRequest: 1 string name, 2 string version
ModelMetadataResponse.TensorMetadata: 1 string name, 2 string datatype, 3 int64* shape
ModelMetadataResponse: 1 string name, 2 string* versions, 3 string platform, 4 .TensorMetadata* inputs, 5 .TensorMetadata* outputs
InferParameter: 1 bool| bool_param, 2 int64| int64_param, 3 string| string_param, 4 double| double_param, 5 uint64| uint64_param
InferTensorContents: 1 bool* bool_contents, 2 int32* int_contents, 3 int64* int64_contents, 4 uint32* uint_contents,
  5 uint64* uint64_contents, 6 float* fp32_contents, 7 double* fp64_contents, 8 bytes* bytes_contents
ModelInferRequest.InferInputTensor: 1 string name, 2 string datatype, 3 int64* shape, 4 InferParameter{} parameters,
  5 InferTensorContents contents
ModelInferRequest.InferRequestedOutputTensor: 1 string name, 2 InferParameter{} parameters
ModelInferRequest: 1 string model_name, 2 string model_version, 3 string id, 4 InferParameter{} parameters,
  5 .InferInputTensor* inputs, 6 .InferRequestedOutputTensor* outputs, 7 bytes* raw_input_contents
ModelInferResponse.InferOutputTensor: 1 string name, 2 string datatype, 3 int64* shape, 4 InferParameter{} parameters,
  5 InferTensorContents contents
ModelInferResponse: 1 string model_name, 2 string model_version, 3 string id, 4 InferParameter{} parameters,
  5 .InferOutputTensor* outputs, 6 bytes* raw_output_contents
ModelStreamInferResponse: 1 string error_message, 2 ModelInferResponse infer_response
ModelInput: 1 string name, 2 int32 data_type, 4 int64* dims
ModelOutput: 1 string name, 2 int32 data_type, 3 int64* dims
ModelConfig: 1 string name, 2 string platform, 4 int32 max_batch_size, 5 ModelInput* input,
  6 ModelOutput* output, 17 string backend
ModelConfigRequest: 1 string name, 2 string version
ModelConfigResponse: 1 ModelConfig config
ModelStatisticsRequest: 1 string name, 2 string version
StatisticDuration: 1 uint64 count, 2 uint64 ns
InferStatistics: 1 StatisticDuration success, 2 StatisticDuration fail, 3 StatisticDuration queue,
  4 StatisticDuration compute_input, 5 StatisticDuration compute_infer, 6 StatisticDuration compute_output
InferBatchStatistics: 1 uint64 batch_size, 2 StatisticDuration compute_input, 3 StatisticDuration compute_infer,
  4 StatisticDuration compute_output
ModelStatistics: 1 string name, 2 string version, 3 uint64 last_inference, 4 uint64 inference_count, 5 uint64 execution_count,
  6 InferStatistics inference_stats, 7 InferBatchStatistics* batch_stats
ModelStatisticsResponse: 1 ModelStatistics* model_stats
SystemSharedMemoryStatusRequest: 1 string name
SystemSharedMemoryStatusResponse.RegionStatus: 1 string name, 2 string key, 3 uint64 offset, 4 uint64 byte_size
SystemSharedMemoryStatusResponse: 1 .RegionStatus{} regions
SystemSharedMemoryRegisterRequest: 1 string name, 2 string key, 3 uint64 offset, 4 uint64 byte_size
SystemSharedMemoryRegisterResponse:
SystemSharedMemoryUnregisterRequest: 1 string name
SystemSharedMemoryUnregisterResponse:
"""


def _lines() -> list[str]:
    return TABLE.replace(",\n  ", ", ").strip().splitlines()


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="sardonyx/inference.proto", package=PACKAGE, syntax="proto3")
    messages: dict[str, descriptor_pb2.DescriptorProto] = {}
    for line in _lines():
        name, _, fields = line.partition(":")
        outer, _, last = name.rpartition(".")
        if outer and outer not in messages:
            messages[outer] = file.message_type.add(name=outer)
        messages[name] = (
            messages[outer].nested_type.add(name=last)
            if outer
            else messages.get(name) or file.message_type.add(name=name)
        )
        for words in filter(None, fields.strip().split(", ")):
            _add_field(messages[name], name, *words.split())
    return file


def _add_field(message: Any, owner: str, number: str, kind: str, name: str) -> None:
    field = message.field.add(name=name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
    plain = kind.rstrip("*|{}")
    if kind.endswith("{}"):
        entry = "".join(word.capitalize() for word in name.split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        _add_field(nested, owner, "1", "string", "key")
        _add_field(nested, owner, "2", plain, "value")
        plain, kind = f"{owner}.{entry}", "*"
    elif plain.startswith("."):
        plain = owner + plain
    if plain in _KINDS:
        field.type = _KINDS[plain]
    else:
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{PACKAGE}.{plain}"
    if kind.endswith("*"):
        field.label = _FIELD.LABEL_REPEATED
    if kind.endswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0


def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_file())
    found = pool.FindFileByName("sardonyx/inference.proto").message_types_by_name
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


MESSAGES = _classes()
