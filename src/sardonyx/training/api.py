"""Training on stock onnxruntime with onnxruntime-training's `CheckpointState`, `Module`, `Optimizer`, `LinearLRScheduler`.

state = CheckpointState.load_checkpoint("artifacts/checkpoint")
module = Module("artifacts/training_model.onnx", state, "artifacts/eval_model.onnx")
optimizer = Optimizer("artifacts/optimizer_model.onnx", module)
for inputs, labels in batches:
    loss = module(inputs, labels)
    optimizer.step()
    module.lazy_reset_grad()
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from sardonyx.errors import BadData, BrokenModel, InputError, UsageError
from sardonyx.run.session import DEFAULTS, Settings
from sardonyx.signature import Array
from sardonyx.training.bound import Bound, kept_outputs
from sardonyx.training.checkpoint import CheckpointState, Parameter
from sardonyx.training.feeding import fitted, named
from sardonyx.training.inference import export_inference
from sardonyx.training.manifest import Manifest, contiguous
from sardonyx.training.manifest import Parameter as Described
from sardonyx.training.optimizers import OPTIMIZERS

__all__ = ["CheckpointState", "LinearLRScheduler", "Module", "Optimizer", "Parameter"]


class Module:
    """A network in training: a call gives the loss and adds to the gradients; in evaluation it gives the loss alone.

    `seed` starts the masks of Dropout; each training call draws the next.
    """

    def __init__(
        self,
        train_model_uri: str | Path,
        state: CheckpointState,
        eval_model_uri: str | Path | None = None,
        device: str = "cpu",
        session_options: ort.SessionOptions | None = None,
        *,
        seed: int = 0,
        settings: Settings = DEFAULTS,
    ) -> None:
        if device != "cpu":
            raise UsageError(f"cannot train on '{device}'", hint="the device is cpu")
        self.manifest = Manifest.of(train_model_uri)
        if state.nominal:
            state.make_room(self.manifest)
        state.check(self.manifest)
        self.state = state
        self.device = device
        self.training = True
        self.seed = seed
        self.calls = 0
        self._reset = True
        self._eval_model_uri = eval_model_uri
        self._statistics = [buffer for buffer in self.manifest.buffers if buffer.output]
        opening: dict[str, Any] = {"settings": settings, "session_options": session_options}
        self._training = self._bind_training(train_model_uri, opening)
        self._evaluation = None
        if eval_model_uri is not None:
            held = dict.fromkeys((tensor.name for tensor in (*self.manifest.parameters, *self.manifest.buffers)), "")
            self._evaluation = Bound(eval_model_uri, state.arrays, held, **opening)

    def _bind_training(self, path: str | Path, opening: dict[str, Any]) -> Bound:
        for parameter in self.manifest.trainable:
            self.state.gradients[parameter.name] = np.zeros(parameter.sizes, parameter.dtype)
        # The graph sees the gradients beside the parameters, each under the name of its buffer.
        self._arrays = _Joined(self.state, self.manifest)
        kept = dict.fromkeys((tensor.name for tensor in self.manifest.parameters), "")
        kept |= kept_outputs(self.manifest.buffers)
        kept |= {f"{each.gradient}.buffer": each.gradient for each in self.manifest.trainable}
        statistics = [buffer.name for buffer in self._statistics]
        return Bound(path, self._arrays, kept, alternating=statistics, **opening)

    def __call__(self, *user_inputs: Any) -> Any:
        """The loss, or a tuple with the loss first where the graph has more outputs. Takes arrays, the labels last.

        Where all that is given are OrtValues, OrtValues come back.
        """
        if self.state.nominal:
            raise UsageError(
                "the parameters of a nominal checkpoint are not there yet",
                hint="fill them with copy_buffer_to_parameters(buffer, trainable_only=False)",
            )
        feeds = fitted(self.manifest, named((*self.manifest.inputs, *self.manifest.labels), user_inputs))
        found: list[Any] = self._learn(feeds) if self.training else self._judge(feeds)
        if user_inputs and all(isinstance(each, ort.OrtValue) for each in user_inputs):
            found = [ort.OrtValue.ortvalue_from_numpy(np.array(each)) for each in found]
        return found[0] if len(found) == 1 else tuple(found)

    def _learn(self, feeds: dict[str, Array]) -> list[Array]:
        if self.manifest.seed is not None:
            feeds[self.manifest.seed] = np.array(self.seed + self.calls, np.int64)
        feeds[self.manifest.reset] = np.array(self._reset)
        found = self._training.run(feeds)
        self._reset = False
        self.calls += 1
        return found

    def _judge(self, feeds: dict[str, Array]) -> list[Array]:
        if self._evaluation is None:
            raise UsageError("the module has no evaluation graph", hint="give eval_model_uri")
        return self._evaluation.run(feeds)

    def train(self, mode: bool = True) -> Module:
        """Calls learn from now on, or evaluate where `mode` is False."""
        self.training = mode
        return self

    def eval(self) -> Module:
        return self.train(False)

    def lazy_reset_grad(self) -> None:
        """The next training call replaces the gradients instead of adding to them."""
        self._reset = True

    def input_names(self) -> list[str]:
        """The names of what a call takes, in order."""
        return [tensor.name for tensor in (*self.manifest.inputs, *self.manifest.labels)]

    def output_names(self) -> list[str]:
        """The names of what a call gives, in order."""
        if self.training or self._evaluation is None:
            return self._training.outputs
        return self._evaluation.outputs

    def get_parameters_size(self, trainable_only: bool = True) -> int:
        """How many numbers the contiguous array of the parameters holds."""
        return sum(parameter.elements for parameter in self._chosen(trainable_only))

    def get_contiguous_parameters(self, trainable_only: bool = False) -> ort.OrtValue:
        """All parameters as one vector; its `numpy()` is an array. `manifest.json` and `shapes.json` tell what lies where."""
        chosen = self._chosen(trainable_only)
        parts = [self.state.arrays[parameter.name].reshape(-1) for parameter in chosen]
        return ort.OrtValue.ortvalue_from_numpy(np.concatenate(parts).astype(chosen[0].dtype, copy=False))

    def copy_buffer_to_parameters(self, buffer: ort.OrtValue | Array, trainable_only: bool = True) -> None:
        """Cuts one vector back into the parameters."""
        if self.state.nominal and trainable_only:
            raise UsageError(
                "a nominal checkpoint needs all of its parameters", hint="give them with trainable_only=False"
            )
        values = np.asarray(buffer.numpy() if hasattr(buffer, "numpy") else buffer).reshape(-1)
        wanted = self.get_parameters_size(trainable_only)
        if values.size != wanted:
            raise BadData(
                f"the buffer holds {values.size} numbers, and the parameters {wanted}", hint="see shapes.json"
            )
        offset = 0
        for parameter in self._chosen(trainable_only):
            part = values[offset : offset + parameter.elements]
            self.state.arrays[parameter.name][...] = part.reshape(parameter.sizes)
            offset += parameter.elements
        self.state.nominal = False

    def export_model_for_inferencing(
        self, inference_model_uri: str | Path, graph_output_names: Sequence[str] | None = None
    ) -> None:
        """Writes the network with its present parameters, and without the loss."""
        if self._eval_model_uri is None:
            raise UsageError("the module has no evaluation graph to export", hint="give eval_model_uri")
        export_inference(self._eval_model_uri, self.state, graph_output_names).save(inference_model_uri)

    def _chosen(self, trainable_only: bool) -> list[Described]:
        return [each for each in self.manifest.parameters if each.trainable or not trainable_only]

    def offsets(self) -> dict[str, slice]:
        """Where each trainable parameter lies in the contiguous array of the trainable ones."""
        return contiguous(self.manifest.parameters)


class _Joined(dict[str, Array]):
    """The arrays of a state and its gradients in one mapping; what is set goes to the state."""

    def __init__(self, state: CheckpointState, manifest: Manifest) -> None:
        self._arrays = state.arrays
        super().__init__({f"{each.gradient}.buffer": state.gradients[each.name] for each in manifest.trainable})

    def __contains__(self, name: object) -> bool:
        return name in self._arrays or super().__contains__(name)

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name] if name in self._arrays else super().__getitem__(name)

    def __setitem__(self, name: str, value: Array) -> None:
        if name in self._arrays:
            self._arrays[name] = value
        else:
            super().__setitem__(name, value)


class Optimizer:
    """Updates the parameters of a module from its gradients."""

    def __init__(self, optimizer_uri: str | Path, module: Module, *, settings: Settings = DEFAULTS) -> None:
        self.manifest = Manifest.of(optimizer_uri)
        if [vars(each) for each in self.manifest.parameters] != [vars(each) for each in module.manifest.parameters]:
            raise InputError(
                "the optimizer belongs to another model", hint="take all files from one folder of artifacts"
            )
        self._module = module
        self._rate = 0.001
        state = module.state
        state.add_moments(self.manifest)
        moments = kept_outputs(self.manifest.moments)
        if self.manifest.optimizer not in OPTIMIZERS:
            raise BrokenModel(
                f"{optimizer_uri} has an unknown optimizer '{self.manifest.optimizer}'", hint="prepare it again"
            )
        rereads = OPTIMIZERS[self.manifest.optimizer].rereads
        self._bound = Bound(
            optimizer_uri, state.arrays, kept_outputs(self.manifest.trainable) | moments,
            alternating=list(moments) if rereads else (), settings=settings,
        )  # fmt: skip

    def step(self, gradient_scale: float = 1.0) -> None:
        """Moves every trainable parameter once. `gradient_scale` multiplies the gradients: 1/N after N accumulated batches."""
        state = self._module.state
        state.step += 1
        feeds: dict[str, Array] = {
            parameter.gradient: state.gradients[parameter.name] for parameter in self.manifest.trainable
        }
        feeds[self.manifest.learning_rate] = np.array(self._rate, np.float32)
        feeds[self.manifest.step] = np.array(state.step, np.int64)
        feeds[self.manifest.gradient_scale] = np.array(gradient_scale, np.float32)
        self._bound.run(feeds)

    def set_learning_rate(self, learning_rate: float) -> None:
        self._rate = float(learning_rate)

    def get_learning_rate(self) -> float:
        return self._rate


class LinearLRScheduler:
    """A learning rate that climbs from 0 over the warm-up, and then falls to 0 at the last step, in straight lines."""

    def __init__(self, optimizer: Optimizer, warmup_step_count: int, total_step_count: int, initial_lr: float) -> None:
        if not 0 <= warmup_step_count < total_step_count:
            raise UsageError(
                f"a warm-up of {warmup_step_count} in {total_step_count} steps", hint="warm up for fewer steps than all"
            )
        self._optimizer = optimizer
        self._warmup, self._total, self._initial = warmup_step_count, total_step_count, initial_lr
        self._step = 0
        optimizer.set_learning_rate(self._rate())

    def step(self) -> None:
        """Sets the rate of the next step."""
        self._step += 1
        self._optimizer.set_learning_rate(self._rate())

    def _rate(self) -> float:
        if self._step < self._warmup:
            return self._initial * self._step / self._warmup
        return self._initial * max(0.0, (self._total - self._step) / (self._total - self._warmup))
