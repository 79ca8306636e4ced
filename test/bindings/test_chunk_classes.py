import gc

import numpy as np
import pytest

from syncopate.mlir import ir
from syncopate.mlir.dialects import chunk


@pytest.fixture(autouse=True)
def context():
    with ir.Context(), ir.Location.unknown():
        yield


def test_buffer_type_gives_back_what_it_was_made_of():
    buffer = chunk.BufferType.get([4, None], ir.BF16Type.get())
    assert str(buffer) == "!chunk.buffer<4x?xbf16>"
    assert buffer.shape == (4, None)
    assert buffer.rank == 2
    assert buffer.element_type == ir.BF16Type.get()


def test_parsed_type_is_of_the_dialects_class():
    assert isinstance(ir.Type.parse("!chunk.buffer<8xf32>"), chunk.BufferType)
    assert isinstance(ir.Type.parse("!chunk.token"), chunk.TokenType)
    assert ir.Type.parse("!chunk.token") == chunk.TokenType.get()


@pytest.mark.parametrize("shape", [[], [0, 4], [1] * 6])
def test_buffer_type_refused_by_the_verifier_is_a_value_error(shape):
    with pytest.raises(ValueError, match=r"^expects "):
        chunk.BufferType.get(shape, ir.BF16Type.get())


def test_table_takes_flat_and_nested_values():
    flat = chunk.TableAttr.get(["signal", "count"], [0, 1, 1, 1])
    nested = chunk.TableAttr.get(["signal", "count"], [[0, 1], [1, 1]])
    array = chunk.TableAttr.get(["signal", "count"], np.array([[0, 1], [1, 1]], dtype=np.int32))
    assert flat == nested == array
    assert flat.columns == ["signal", "count"]
    assert flat.num_rows == 2


def test_table_values_are_a_read_only_view():
    table = chunk.TableAttr.get(["a", "b"], np.arange(200_000))
    values = table.values
    assert values.dtype == np.int64
    assert values.shape == (100_000, 2)
    assert not values.flags.writeable
    assert np.shares_memory(values, table.values)


def test_table_values_outlive_attribute_and_context():
    with ir.Context():
        values = chunk.TableAttr.get(["a"], range(1000)).values
    gc.collect()
    assert values.sum() == 499_500


def test_empty_table_has_columns():
    table = chunk.TableAttr.get(["a", "b"], [])
    assert table.num_rows == 0
    assert table.values.shape == (0, 2)


@pytest.mark.parametrize(
    ("columns", "values"), [([], []), (["a", "a"], [1, 2]), (["a", "b"], [1, 2, 3])]
)
def test_table_refused_by_the_verifier_is_a_value_error(columns, values):
    with pytest.raises(ValueError, match=r"^expects "):
        chunk.TableAttr.get(columns, values)
