"""Markers change nothing, and an annotated kernel holds nothing of ours but the marker."""

import re

import pytest
import triton
import triton.language as tl

import syncopate.language as sy
from syncopate.bridge import KernelSpec, capture_ttgir, compile_with, make_wrapper
from syncopate.kernels import GemmConfig, gemm
from syncopate.language import ORDERED_STEPS_MARKER, STEP_MARKER, STEPS_MARKER, TILE_MARKER


@triton.jit
def mark(out, t, m, n, k, COORDINATES: tl.constexpr):
    if COORDINATES == 1:
        m, i = sy.tile(t, m)
        tl.store(out, m + 10 * i)
    elif COORDINATES == 2:
        m, n, i = sy.tile(t, m, n)
        tl.store(out, m + 2 * n + 10 * i)
    else:
        m, n, k, i = sy.tile(t, m, n, k)
        tl.store(out, m + 2 * n + 3 * k + 10 * i)


def mark_spec(coordinates):
    signature = {
        "out": "*i32",
        **dict.fromkeys(("t", "m", "n", "k"), "i32"),
        "COORDINATES": "constexpr",
    }
    return KernelSpec(mark, signature, {"COORDINATES": coordinates}, options={"num_warps": 1})


@triton.jit
def walk(out, first, last, ORDERED: tl.constexpr):
    begin, end = sy.steps(first, last, ORDERED)
    for i in tl.range(begin, end):
        tl.store(out + sy.step(i), i)


def walk_spec(ordered):
    signature = {"out": "*i32", "first": "i32", "last": "i64", "ORDERED": "constexpr"}
    options = {"num_warps": 1, "num_stages": 3}
    return KernelSpec(walk, signature, {"ORDERED": ordered}, options=options)


@pytest.mark.parametrize("ordered", [False, True])
def test_steps_are_marked_before_the_loop_and_in_it(ordered):
    captured = capture_ttgir(walk_spec(ordered))
    for text in (captured.ttir, captured.ttgir):
        markers = re.findall(r"// syncopate\.\w+", text)
        assert markers == [ORDERED_STEPS_MARKER if ordered else STEPS_MARKER, STEP_MARKER]
        before, loop, inside = (
            text.index(word) for word in (markers[0], "scf.for", f"{STEP_MARKER}\\0A")
        )
        assert before < loop < text.index("scf.if", loop) < inside


def test_steps_are_identities():
    ptx = compile_with(walk_spec(False), lambda _, ttgir: ttgir, "identity").asm["ptx"]
    body = ptx[ptx.index(STEPS_MARKER) :]
    assert len(re.findall(r"mov\.b32 %r\d+, %r\d+;", body[: body.index("end inline asm")])) == 2
    body = body[body.index(STEP_MARKER + "\n") :]
    assert len(re.findall(r"mov\.b32 %r\d+, %r\d+;", body[: body.index("end inline asm")])) == 1


@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_tile_takes_coordinates_ordinal_and_position(coordinates):
    text = capture_ttgir(mark_spec(coordinates)).ttir
    (marker,) = [line for line in text.splitlines() if TILE_MARKER in line]
    results, operands = re.search(
        r'%\w+:(\d) = "tt\.elementwise_inline_asm"\(([^)]*)\)', marker
    ).groups()
    assert int(results) == coordinates + 1
    operands = operands.split(", ")
    assert operands[:coordinates] == ["%m", "%n", "%k"][:coordinates]
    assert operands[-1] == "%t"
    assert len(operands) == coordinates + 2
    assert "pure = false" in marker


@pytest.mark.parametrize("coordinates", [1, 2, 3])
def test_tile_is_an_identity(coordinates):
    ptx = compile_with(mark_spec(coordinates), lambda _, ttgir: ttgir, "identity").asm["ptx"]
    body = ptx[ptx.index(TILE_MARKER) :]
    moves = re.findall(r"mov\.b32 (%r\d+), (%r\d+);", body)[: coordinates + 1]
    assert len({target for target, _ in moves}) == len({source for _, source in moves})
    assert len(moves) == coordinates + 1


def test_annotated_kernel_holds_only_the_marker():
    config = GemmConfig(num_ctas=132)
    signature = {"sy_context": "*i64", **config.descriptor_signature()}
    wrapper = make_wrapper(gemm, "annotated")
    captured = capture_ttgir(
        KernelSpec(wrapper, signature, config.constexprs(), options=config.options())
    )
    for text in (captured.ttir, captured.ttgir):
        assert TILE_MARKER in text
        assert text.count("%sy_context") == 1
        for op in (
            "tt.load",
            "tt.store",
            "tt.atomic_rmw",
            "tt.atomic_cas",
            "tt.int_to_ptr",
            "scf.while",
        ):
            assert f'"{op}"' not in text
    assert captured.ttir.count(TILE_MARKER) == 1
    # Flattening the tile loop into the K loop clones the marker into the prologue of the pipeline.
    assert captured.ttgir.count(TILE_MARKER) >= config.num_stages
