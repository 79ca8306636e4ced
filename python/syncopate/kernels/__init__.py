"""Local Triton kernels that the demo, the tests and the benchmark use. None of them communicates."""

from syncopate.kernels.bind import bind_gemm, bind_gemm_pointers
from syncopate.kernels.config import GemmConfig
from syncopate.kernels.gemm import gemm
from syncopate.kernels.gemm_pointers import gemm_pointers

__all__ = ["GemmConfig", "bind_gemm", "bind_gemm_pointers", "gemm", "gemm_pointers"]
