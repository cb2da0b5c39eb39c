import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from sardonyx.errors import BadData, NotFound, SourceFailed, UsageError
from sardonyx.samples import BATCH, Batch, Samples
from sardonyx.signature import Signature

PAIR = Signature.parse(["x=float32[batch,3]", "mask=int64[batch]"])
ONE = Signature.parse(["x=float32[batch,3]"])


def rows(count: int) -> np.ndarray[Any, Any]:
    return np.arange(count * 3, dtype=np.float32).reshape(count, 3)


def refused(source: Any, signature: Signature = ONE, **options: Any) -> str:
    with pytest.raises(BadData) as caught:
        list(Samples.open(source, signature, **options))
    assert caught.value.hint
    return caught.value.message


@pytest.fixture(params=["dict", "npz", "safetensors"])
def five(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    arrays = {"x": rows(5), "mask": np.arange(5), "label": np.arange(5) * 10}
    if request.param == "npz":
        np.savez(tmp_path / "data.npz", **arrays)
        return tmp_path / "data.npz"
    if request.param == "safetensors":
        save_file(arrays, tmp_path / "data.safetensors")
        return str(tmp_path / "data.safetensors")
    return arrays


def test_arrays_are_cut_into_batches_that_can_be_walked_twice(five: Any) -> None:
    samples = Samples.open(five, PAIR, batch=2)
    assert (samples.count, samples.examples, samples.left_out) == (3, 5, 0)
    for _ in range(2):
        batches = list(samples)
        assert [batch.inputs["mask"].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
        assert [batch.label.tolist() for batch in batches if batch.label is not None] == [[0, 10], [20, 30], [40]]
        assert np.array_equal(np.concatenate([batch.inputs["x"] for batch in batches]), rows(5))


def test_a_batch_holds_32_unless_someone_says_otherwise() -> None:
    samples = Samples.open({"x": rows(BATCH + 1)}, ONE)
    assert [len(batch.inputs["x"]) for batch in samples] == [BATCH, 1]
    assert all(batch.label is None for batch in samples)


def test_take_gives_the_first_batches() -> None:
    samples = Samples.open({"x": rows(5)}, ONE, batch=2)
    assert [len(batch.inputs["x"]) for batch in samples.take(2)] == [2, 2]
    assert samples.take(2).count == 2
    assert samples.take(9) is samples


def test_an_npy_is_the_only_input_and_is_not_read_whole(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows(5))
    samples = Samples.open(tmp_path / "x.npy", ONE, batch=2)
    assert [len(batch.inputs["x"]) for batch in samples] == [2, 2, 1]
    assert "mask: missing" in refused(tmp_path / "x.npy", PAIR)


def test_what_savez_left_nameless_is_the_only_input(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", rows(2))
    assert next(iter(Samples.open(tmp_path / "x.npz", ONE))).inputs["x"].shape == (2, 3)


def test_the_model_fixes_the_batch_and_the_rest_is_counted() -> None:
    signature = Signature.parse(["x=float32[2,3]"])
    samples = Samples.open({"x": rows(5)}, signature, batch=4)
    assert [len(batch.inputs["x"]) for batch in samples] == [2, 2]
    assert (samples.count, samples.examples, samples.left_out) == (2, 4, 1)
    assert "x: shape [1,3], the model takes [2,3]" in refused({"x": rows(1)}, signature)


def test_scalars_and_full_states_are_repeated_in_every_batch() -> None:
    signature = Signature.parse(["x=float32[batch,3]", "state=float32[2,batch,4]", "rate=int64[]"])
    state = np.ones((2, 1, 4), np.float32)
    samples = Samples.open({"x": rows(3), "state": state, "rate": 16000}, signature)
    batches = list(samples)
    assert len(batches) == 3, "the state settles that a batch is one example"
    assert all(np.array_equal(batch.inputs["state"], state) for batch in batches)
    assert all(batch.inputs["rate"] == 16000 for batch in batches)


def test_arrays_that_fill_every_input_are_one_batch() -> None:
    signature = Signature.parse(["x=float32[1,3]", "state=float32[2,1,4]"])
    samples = Samples.open({"x": rows(1), "state": np.ones((2, 1, 4)), "label": [7]}, signature)
    (only,) = samples
    assert only.label is not None
    assert only.label.tolist() == [7]
    assert samples.count == 1


def test_an_input_called_label_is_an_input_and_the_label() -> None:
    signature = Signature.parse(["x=float32[batch,3]", "label=int64[batch]"])
    (batch,) = Samples.open({"x": rows(2), "label": np.arange(2)}, signature)
    assert set(batch.inputs) == {"x", "label"}
    assert batch.label is not None


def test_one_error_names_every_problem() -> None:
    message = refused({"x": rows(5)[:, :2], "extra": np.zeros(5), "label": np.zeros(4)}, PAIR)
    assert "x: shape [5,2], the model takes [batch,3]" in message
    assert "extra: the model has no such input" in message
    assert "mask: missing" in message
    assert "label has 4 examples" in message


def test_a_wrong_type_is_named() -> None:
    assert "mask: type float64, the model takes int64" in refused({"x": rows(2), "mask": np.zeros(2)}, PAIR)


def test_values_that_do_not_fit_are_named_with_their_examples() -> None:
    signature = Signature.parse(["x=int8[batch]"])
    assert "examples 2 to 3," in refused({"x": np.array([1, 2, 3, 400])}, signature, batch=2)


def test_values_that_are_no_arrays_are_named() -> None:
    assert "x: " in refused({"x": [[1.0], [1.0, 2.0]]})


def test_no_examples_are_refused() -> None:
    assert "holds 0 examples" in refused({"x": rows(0)})


def test_batches_that_disagree_are_refused() -> None:
    signature = Signature.parse(["x=float32[2,3]", "y=float32[4,3]"])
    assert "x 2, y 4" in refused({"x": rows(8), "y": rows(8)}, signature)


def give_two() -> Iterator[dict[str, Any]]:
    yield {"x": rows(2), "label": [1, 2]}
    yield {"x": rows(1), "label": [3]}


def test_a_function_is_called_again_for_every_walk() -> None:
    samples = Samples.open(give_two, ONE)
    for _ in range(2):
        assert [len(batch.inputs["x"]) for batch in samples] == [2, 1]
    assert samples.count is None
    assert [len(batch.inputs["x"]) for batch in samples.take(1)] == [2]


def test_a_file_with_a_function_gives_samples(tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("import numpy as np\ndef give():\n    yield {'x': np.zeros((4, 3))}\n")
    (batch,) = Samples.open(f"{tmp_path}/data.py:give", ONE)
    assert batch.inputs["x"].dtype == np.float32


def test_a_list_of_dicts_is_walked_and_an_iterator_is_refused() -> None:
    assert len(list(Samples.open(list(give_two()), ONE))) == 2
    with pytest.raises(UsageError, match="only once"):
        Samples.open(give_two(), ONE)
    with pytest.raises(UsageError, match="holds no samples"):
        Samples.open(3, ONE)


def test_a_function_that_raises_is_blamed_with_its_line(tmp_path: Path) -> None:
    lines = "import numpy as np\ndef give():\n    yield {'x': np.zeros((4, 3))}\n    raise KeyError('gone')\n"
    (tmp_path / "data.py").write_text(lines)
    with pytest.raises(SourceFailed, match=r"data\.py:give raised KeyError: 'gone' \(data\.py:4\)"):
        list(Samples.open(f"{tmp_path}/data.py:give", ONE))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: None, "gives a NoneType"),
        (lambda: {"x": rows(1)}, "gives a dict"),
        (list, "yields nothing"),
        (lambda: [(rows(1), 3)], "item 0, is a tuple"),
        (lambda: [{"x": rows(1)}, {"y": rows(1)}], "item 1, cannot go into the model"),
        (lambda: [{"x": "words"}], "type <U5, the model takes float32"),
    ],
)
def test_a_function_that_yields_nonsense_is_refused(given: Any, said: str) -> None:
    assert said in refused(given)


def test_samples_are_given_back_as_they_are() -> None:
    samples = Samples(lambda: iter([Batch({})]))
    assert Samples.open(samples, ONE) is samples


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="0 examples"):
        Samples.open({"x": rows(1)}, ONE, batch=0)


def test_what_does_not_exist_is_named() -> None:
    with pytest.raises(NotFound, match=r"nowhere\.npz"):
        Samples.open("nowhere.npz", ONE)


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    for index, name in enumerate(("cat/1.png", "cat/2.png", "dog/1.png", "dog/2.png", "dog/3.png")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("L", (4 + index, 4), index * 10).save(tmp_path / name)
    return tmp_path


def test_a_folder_of_images_has_labels_and_classes(zoo: Path) -> None:
    samples = Samples.open(zoo, Signature.parse(["x=uint8[n,1,4,4]"]), batch=2)
    assert samples.classes == ("cat", "dog")
    assert (samples.count, samples.examples) == (3, 5)
    batches = list(samples)
    assert [batch.label.tolist() for batch in batches if batch.label is not None] == [[0, 1], [0, 1], [1]]
    assert [batch.inputs["x"][:, 0, 0, 0].tolist() for batch in batches] == [[0, 20], [10, 30], [40]]


def test_images_keep_their_size_one_by_one_where_the_model_fixes_none(zoo: Path) -> None:
    signature = Signature.parse(["x=uint8[n,1,h,w]"])
    assert [batch.inputs["x"].shape[-1] for batch in Samples.open(zoo, signature)] == [4, 6, 5, 7, 8]
    assert "cannot share a batch" in refused(zoo, signature, batch=2)


def test_a_model_without_a_batch_axis_takes_images_one_by_one(zoo: Path) -> None:
    batches = list(Samples.open(zoo, Signature.parse(["x=float32[3,4,4]"]), batch=4))
    assert [batch.inputs["x"].shape for batch in batches] == [(3, 4, 4)] * 5


def test_images_for_a_fixed_batch_leave_out_the_rest(zoo: Path) -> None:
    samples = Samples.open(zoo, Signature.parse(["x=float32[2,3,4,4]"]))
    assert [batch.inputs["x"].shape for batch in samples] == [(2, 3, 4, 4)] * 2
    assert samples.left_out == 1


def test_one_image_is_one_sample(zoo: Path) -> None:
    (batch,) = Samples.open(zoo / "cat" / "1.png", Signature.parse(["x=float32[n,1,8,8]"]))
    assert batch.inputs["x"].shape == (1, 1, 8, 8)
    assert batch.label is None


def test_images_for_a_model_of_several_inputs_are_refused(zoo: Path) -> None:
    assert "gives images, and the model takes" in refused(zoo, PAIR)


def test_a_broken_image_is_named_when_its_turn_comes(zoo: Path) -> None:
    (zoo / "dog" / "2.png").write_text("no pixels")
    assert "dog/2.png is not an image" in refused(zoo, Signature.parse(["x=uint8[n,1,4,4]"]))


def test_only_the_batch_at_hand_is_in_memory(tmp_path: Path) -> None:
    import tracemalloc

    save_file({"x": np.zeros((4096, 3 * 256), np.float32)}, tmp_path / "big.safetensors")
    np.save(tmp_path / "big.npy", np.zeros((4096, 3 * 256), np.float32))
    signature = Signature.parse(["x=float32[batch,768]"])
    for name in ("big.safetensors", "big.npy"):
        gc.collect()
        tracemalloc.start()
        seen = sum(len(batch.inputs["x"]) for batch in Samples.open(tmp_path / name, signature, batch=16))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert seen == 4096
        assert peak < 1 << 20, f"{name}: 12 MiB were on disk, and {peak} bytes were held"
