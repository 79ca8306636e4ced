"""Element types and integers behave as the hardware's."""

import struct

import numpy as np
import pytest

from syncopate.sim import runtime_library as library
from syncopate.sim.values import element, parse_shaped, round_to, wrap

pytestmark = pytest.mark.any_triton


def test_bf16_rounds_to_nearest_even():
    values = np.array(
        [1.0, 1.00390625, 1.01171875, -3.1415926, 1e-40, 3.4e38, np.inf, np.nan], np.float32
    )
    rounded = round_to(values, "bf16")
    assert (rounded.view(np.uint32) & 0xFFFF == 0).all()
    assert rounded[1] == 1.0  # a tie, to even
    assert rounded[2] == 1.015625  # a tie, to even
    assert rounded[5] == np.inf
    assert np.isnan(rounded[7])


@pytest.mark.parametrize("name", ["bf16", "f16", "f8E4M3FN", "f8E5M2", "f32", "i32", "i8", "i1"])
def test_decode_inverts_encode(name):
    kind = element(name)
    codes = np.arange(2 if name == "i1" else 200).astype(kind.stored)
    values = kind.decode(codes)
    keep = np.isfinite(values) if kind.is_float else np.ones(len(codes), bool)
    assert (kind.encode(values[keep]) == codes[keep]).all()


@pytest.mark.parametrize(("name", "largest"), [("f8E4M3FN", 448.0), ("f8E5M2", 57344.0)])
def test_small_floats_round_and_saturate(name, largest):
    kind = element(name)
    finite = kind.decode(np.arange(128, dtype=np.uint8))
    finite = np.sort(finite[np.isfinite(finite)])
    assert finite[-1] == largest
    middles = (finite[:-1].astype(np.float64) + finite[1:]) / 2
    for shift, expected in ((1 - 1e-6, finite[:-1]), (1 + 1e-6, finite[1:])):
        assert (kind.decode(kind.encode((middles * shift).astype(np.float32))) == expected).all()
    assert kind.decode(kind.encode(np.float32([1e9, -1e9]))).tolist() == [largest, -largest]


def test_f16_is_numpys():
    packed = struct.pack("<e", 0.1)
    assert element("f16").encode(np.float32([0.1])).tobytes() == packed


def test_shapes_are_read_from_types_of_all_versions():
    assert parse_shaped("!tt.tensordesc<tensor<64x32xbf16, #s>>") == ((64, 32), element("bf16"))
    assert parse_shaped("!tt.tensordesc<64x32xbf16, #s>") == ((64, 32), element("bf16"))
    assert parse_shaped("!ttg.memdesc<3x1xi64, #a, #ttg.shared_memory>") == ((3, 1), element("i64"))
    assert parse_shaped("tensor<8x!tt.ptr<f32>, #b>") == ((8,), element("ptr"))


def test_integers_wrap_and_divide_towards_zero():
    assert wrap(2**31, 32) == -(2**31)
    assert library.w32(-(2**31) - 1) == 2**31 - 1
    for a in (-7, 7):
        for b in (-2, 2):
            assert library.divs(a, b) == int(a / b)
            arrays = np.array([a], np.int32), np.array([b], np.int32)
            assert library.divs(*arrays)[0] == int(a / b)
            assert library.rems(*arrays)[0] == a - int(a / b) * b
    assert library.ceildivs(7, 2) == 4
    assert library.unsigned(-1, 32) == 2**32 - 1
