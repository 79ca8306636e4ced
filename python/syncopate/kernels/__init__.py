"""Local Triton kernels that the demo, the tests and the benchmark use. None of them communicates."""

from typing import TYPE_CHECKING, Any

from syncopate.kernels.add_activate import add_activate
from syncopate.kernels.add_rms_norm import add_rms_norm
from syncopate.kernels.attention import attention
from syncopate.kernels.attention_backward import attention_backward_kv, attention_backward_q
from syncopate.kernels.combine_rows import combine_rows
from syncopate.kernels.config import (
    Activation,
    AttentionConfig,
    DecodeConfig,
    GemmConfig,
    Precision,
)
from syncopate.kernels.decode_attention import decode_attention
from syncopate.kernels.gemm import gemm
from syncopate.kernels.gemm_pointers import gemm_pointers
from syncopate.kernels.grouped_gemm import grouped_gemm

if TYPE_CHECKING:
    from syncopate.kernels.bind import (
        bind_add_rms_norm,
        bind_combine_rows,
        bind_gemm,
        bind_gemm_pointers,
        bind_grouped_gemm,
    )
    from syncopate.kernels.bind_backward import (
        bind_attention_backward_kv,
        bind_attention_backward_q,
    )
    from syncopate.kernels.bind_decode import bind_decode_attention
    from syncopate.kernels.bind_sequence import bind_attention

__all__ = [
    "Activation",
    "AttentionConfig",
    "DecodeConfig",
    "GemmConfig",
    "Precision",
    "add_activate",
    "add_rms_norm",
    "attention",
    "attention_backward_kv",
    "attention_backward_q",
    "bind_add_rms_norm",
    "bind_attention",
    "bind_attention_backward_kv",
    "bind_attention_backward_q",
    "bind_combine_rows",
    "bind_decode_attention",
    "bind_gemm",
    "bind_gemm_pointers",
    "bind_grouped_gemm",
    "combine_rows",
    "decode_attention",
    "gemm",
    "gemm_pointers",
    "grouped_gemm",
]

_HOMES = {
    "bind_attention": "bind_sequence",
    "bind_attention_backward_kv": "bind_backward",
    "bind_attention_backward_q": "bind_backward",
    "bind_decode_attention": "bind_decode",
}


def __getattr__(name: str) -> Any:
    # Binding a kernel needs the compiler; running one under plain Triton does not.
    if name.startswith("bind_") and name in __all__:
        import importlib

        home = _HOMES.get(name, "bind")
        return getattr(importlib.import_module(f"syncopate.kernels.{home}"), name)
    raise AttributeError(f"module 'syncopate.kernels' has no attribute {name!r}")
