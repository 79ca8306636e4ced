"""The argument block of a launch, and what a kernel image takes out of Triton; without a GPU."""

import ctypes
import struct
import subprocess
import sys
import types

import pytest

from syncopate.errors import SyncopateError
from syncopate.runtime import launch
from syncopate.runtime.interface import DescriptorLayout, KernelImage

LAYOUT = DescriptorLayout(swizzle=3, elem_size=2, elem_type=10, block_size=(64, 64))


def image(*arguments, descriptors=()):
    return KernelImage("k", b"", arguments, num_warps=4, shared_bytes=0, descriptors=descriptors)


def read(block, index, nbytes):
    return ctypes.string_at(block.pointers[index], nbytes)


def test_scalars_and_pointers_have_their_places():
    block = launch.ArgumentBlock(
        image(("context", "*i64"), ("n", "i32"), ("BLOCK", "constexpr"), ("big", "i64"))
    )
    # Two scratch pointers follow the declared arguments.
    assert len(block.pointers) == 5
    block.set_scalar("context", 0xDEAD_BEEF_0000)
    block.set_scalar("n", -3)
    block.set_scalar("big", 1 << 40)
    block.set_scratch(16, 32)
    assert read(block, 0, 8) == struct.pack("Q", 0xDEAD_BEEF_0000)
    assert read(block, 1, 4) == struct.pack("i", -3)
    assert read(block, 2, 8) == struct.pack("q", 1 << 40)
    assert read(block, 3, 8) + read(block, 4, 8) == struct.pack("QQ", 16, 32)


def test_descriptor_expands_to_map_shape_and_strides(monkeypatch):
    seen = []

    def encode(*arguments):
        seen.append(arguments)
        return bytes(range(128))

    monkeypatch.setattr(launch, "encode_tensor_map", encode)
    block = launch.ArgumentBlock(
        image(("n", "i32"), ("a", "tensordesc<bf16[64, 64]>"), descriptors=(LAYOUT,))
    )
    assert len(block.pointers) == 1 + 5 + 2
    block.set_bytes("a", block.descriptor_setter("a", "zero")(4096, (100, 72), (80, 1)))
    assert block.pointers[1] % 64 == 0
    assert read(block, 1, 128) == bytes(range(128))
    assert [struct.unpack("i", read(block, i, 4))[0] for i in (2, 3)] == [100, 72]
    assert [struct.unpack("q", read(block, i, 8))[0] for i in (4, 5)] == [80, 1]
    assert seen == [("a", LAYOUT, 4096, (100, 72), (80, 1), "zero")]


def test_unaligned_rows_are_refused_before_the_driver():
    with pytest.raises(SyncopateError, match=r"argument a: TMA needs .* multiples of 16 bytes"):
        launch.encode_tensor_map("a", LAYOUT, 4096, (100, 75), (75, 1), "zero")


def test_descriptor_without_tma_is_refused():
    with pytest.raises(SyncopateError, match="descriptor a without TMA"):
        launch.ArgumentBlock(image(("a", "tensordesc<bf16[64, 64]>")))


def test_unknown_scalar_type_is_refused():
    with pytest.raises(SyncopateError, match="kernel argument x: a scalar of type bf16"):
        launch.ArgumentBlock(image(("x", "bf16")))


def test_image_from_triton():
    meta = types.SimpleNamespace(
        name="k",
        num_warps=12,
        shared=1024,
        num_ctas=1,
        global_scratch_size=0,
        global_scratch_align=1,
        profile_scratch_size=0,
        tensordesc_meta=[
            {"swizzle": 3, "elem_size": 2, "elem_type": 10, "block_size": [64, 64], "fp4_padded": 0}
        ],
    )
    source = types.SimpleNamespace(signature={"c": "*i64", "a": "tensordesc<bf16[64, 64]>"})
    compiled = types.SimpleNamespace(metadata=meta, asm={"cubin": b"code"}, src=source)
    made = KernelImage.from_triton(compiled)
    assert made.arguments == (("c", "*i64"), ("a", "tensordesc<bf16[64, 64]>"))
    assert made.descriptors == (LAYOUT,)
    assert (made.num_warps, made.shared_bytes, made.cubin) == (12, 1024, b"code")
    meta.num_ctas = 2
    with pytest.raises(ValueError, match="num_ctas=2"):
        KernelImage.from_triton(compiled)


def test_import_needs_neither_torch_nor_triton():
    code = (
        "import sys, syncopate.runtime as r, syncopate.plan, syncopate.plan.plan_file, syncopate.sim\n"
        "from syncopate.runtime import commands, cuda, engine_plan, faults, interface, launch, linking, rescue\n"
        "assert not {'torch', 'triton'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_plans_know_nothing_of_the_runtime():
    code = (
        "import sys, pkgutil, importlib, syncopate.plan as p\n"
        "for found in pkgutil.iter_modules(p.__path__, 'syncopate.plan.'): importlib.import_module(found.name)\n"
        "assert not [name for name in sys.modules if name.startswith('syncopate.runtime')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_launchers_of_the_same_code_share_it(monkeypatch):
    handles = iter(range(100, 200))
    calls = []

    def load(cubin, name, shared_bytes, device):
        calls.append(("load", device))
        return next(handles), next(handles)

    monkeypatch.setattr(launch.cuda, "load_function", load)
    monkeypatch.setattr(launch.cuda, "ctas_per_sm", lambda *_: 1)
    monkeypatch.setattr(launch.cuda, "function", lambda _: None)
    monkeypatch.setattr(launch.cuda, "call", lambda name, module: calls.append((name, module)))
    same = [launch.KernelLauncher(image(("n", "i32")), 0, (n, 1, 1)) for n in (1, 2)]
    other = launch.KernelLauncher(image(("n", "i32")), 1, (1, 1, 1))
    assert calls == [("load", 0), ("load", 1)]
    same[0].arguments.set_scalar("n", 5)
    assert read(same[1].arguments, 0, 4) == bytes(4)
    same[0].close()
    same[0].close()
    assert len(calls) == 2
    same[1].close()
    other.close()
    assert calls[2:] == [("cuModuleUnload", 100), ("cuModuleUnload", 102)]
    launch.KernelLauncher(image(("n", "i32")), 0, (1, 1, 1)).close()
    assert calls[4:] == [("load", 0), ("cuModuleUnload", 104)]
