"""What this machine has of what Syncopate needs, what is missing, and how to get it."""

from __future__ import annotations

import ctypes
import enum
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any, Final

__all__ = ["Diagnosis", "Finding", "Need", "diagnose", "measure_links"]

OLDEST_PYTHON: Final = (3, 10)
OLDEST_TRITON: Final = (3, 6)
OLDEST_TORCH: Final = (2, 10)

_COPIED_BYTES: Final = 256 << 20
_COPIES: Final = 10


class Need(enum.Enum):
    """What something is needed for."""

    COMPILE = "compile"
    RUN = "run"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: What.
        ok: Whether it is there, and new enough.
        found: What there is, in words.
        need: What for.
        fix: How to get it, if it is missing.
    """

    name: str
    ok: bool
    found: str
    need: Need = Need.COMPILE
    fix: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All that was found.

    Attributes:
        findings: One by one.
        gpus: Of each GPU that torch can use, what it is.
        peers: Whether GPU i reaches the memory of GPU j.
        links: GB/s of an engine copy from i to j, by "i-j"; empty if it was not measured.
    """

    findings: tuple[Finding, ...]
    gpus: tuple[Mapping[str, Any], ...] = ()
    peers: tuple[tuple[bool, ...], ...] = ()
    links: Mapping[str, float] = field(default_factory=dict)

    @property
    def can_compile(self) -> bool:
        """Whether all is there to compile, check, predict and draw."""
        return all(one.ok for one in self.findings if one.need == Need.COMPILE)

    @property
    def can_run(self) -> bool:
        """Whether programs run here too, on two GPUs at least."""
        needed = (Need.COMPILE, Need.RUN)
        return all(one.ok for one in self.findings if one.need in needed)

    def __str__(self) -> str:
        lines = []
        for one in self.findings:
            sign = "✓" if one.ok else "✗" if one.need == Need.COMPILE else "-"
            lines.append(f"{sign} {one.name:<18} {one.found}")
            if not one.ok and one.fix:
                lines.append(f"{'':21}→ {one.fix}")
        for number, gpu in enumerate(self.gpus):
            lines.append(f"  GPU {number}: {gpu['name']}, {gpu['target']}, {gpu['detail']}")
        lines += [
            f"  GPU {pair.replace('-', ' to ')}: {gbps:.0f} GB/s by its engine"
            for pair, gbps in self.links.items()
        ]
        can = "can compile, check and draw" if self.can_compile else "cannot compile"
        lines.append(f"{can}; {'can' if self.can_run else 'cannot'} run programs")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same as data."""
        findings = [{**asdict(one), "need": one.need.value} for one in self.findings]
        can = {"compile": self.can_compile, "run": self.can_run}
        return {**asdict(self), "findings": findings, "can": can}


def diagnose(*, measure: bool = False) -> Diagnosis:
    """Looks at this machine. Nothing is installed or changed; a file is written to the cache folder and removed.

    Args:
        measure: Whether to measure links between GPUs, a second for each pair.
    """
    findings = [finding for look in _LOOKS for finding in look()]
    gpus, peers = _describe_gpus()
    links = measure_links() if measure and len(gpus) > 1 else {}
    return Diagnosis(tuple(findings), gpus, peers, links)


def _look_at_python() -> Iterator[Finding]:
    here = sys.version_info[:2]
    yield Finding(
        "Python",
        here >= OLDEST_PYTHON,
        f"{platform.python_version()}, {sys.executable}",
        fix="Python 3.10 to 3.13",
    )
    machine = platform.machine()
    known = sys.platform == "linux" and machine in ("x86_64", "aarch64")
    yield Finding(
        "platform", known, f"{sys.platform} on {machine}", fix="Linux on x86-64 or aarch64"
    )


def _look_at_package() -> Iterator[Finding]:
    from syncopate import __version__
    from syncopate._tools import find_tool

    reinstall = "pip install --force-reinstall syncopate-compiler, or `make dev` in a checkout"
    try:
        from syncopate.ir import new_context

        new_context()
        yield Finding("MLIR bindings", True, f"of syncopate {__version__}")
    except ImportError as error:
        yield Finding("MLIR bindings", False, str(error), fix=reinstall)
    try:
        tool = find_tool("syncopate-opt")
        run = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
        version = next((line for line in run.stdout.splitlines() if "version" in line), "").strip()
        yield Finding("syncopate-opt", run.returncode == 0, f"{version}, {tool}", fix=reinstall)
    except OSError as error:
        yield Finding("syncopate-opt", False, str(error), fix=reinstall)


def _look_at_triton() -> Iterator[Finding]:
    yield _find_package("triton", OLDEST_TRITON, Need.COMPILE, "pip install 'triton>=3.6'")
    if importlib.util.find_spec("triton") is None:
        return
    import triton

    try:
        ptxas = triton.knobs.nvidia.ptxas
        yield Finding("ptxas", True, f"{ptxas.version}, {ptxas.path}")
    except (AttributeError, OSError, RuntimeError, subprocess.SubprocessError) as error:
        yield Finding(
            "ptxas",
            False,
            str(error) or "none",
            fix="it comes with Triton's wheel; or name one in TRITON_PTXAS_PATH",
        )


def _look_at_cache() -> Iterator[Finding]:
    from syncopate.bridge import cache_folder

    folder = cache_folder("kernels").parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        free = shutil.disk_usage(folder).free >> 20
        yield Finding("cache", True, f"{folder}, {free} MiB free")
    except OSError as error:
        yield Finding(
            "cache",
            False,
            f"cannot write {folder}: {error.strerror}",
            fix="name a folder that can be written in SYNCOPATE_CACHE_DIR",
        )


def _look_at_torch() -> Iterator[Finding]:
    yield _find_package("torch", OLDEST_TORCH, Need.RUN, "pip install 'syncopate-compiler[torch]'")
    if importlib.util.find_spec("torch") is None:
        return
    import torch
    import torch.distributed as dist

    cuda = torch.version.cuda
    yield Finding(
        "torch for CUDA",
        cuda is not None,
        f"CUDA {cuda}" if cuda else "a build for the CPU",
        Need.RUN,
        "install the build of torch for CUDA",
    )
    nccl = dist.is_available() and dist.is_nccl_available()
    version = ".".join(map(str, torch.cuda.nccl.version())) if nccl else "none"
    yield Finding(
        "NCCL", nccl, version, Need.RUN, "it comes with the build of torch for CUDA on Linux"
    )


def _look_at_gpus() -> Iterator[Finding]:
    driver = _find_driver()
    yield Finding(
        "CUDA driver",
        driver is not None,
        driver or "no libcuda.so.1",
        Need.RUN,
        "install NVIDIA's driver; in a container, give it the GPUs (--gpus all)",
    )
    gpus, peers = _describe_gpus()
    yield Finding(
        "GPUs",
        len(gpus) > 1,
        f"{len(gpus)} that torch can use",
        Need.RUN,
        "programs run on two GPUs or more of one host; see CUDA_VISIBLE_DEVICES",
    )
    pairs = [(i, j) for i, row in enumerate(peers) for j, reaches in enumerate(row) if not reaches]
    if len(gpus) > 1:
        apart = ", ".join(f"{i} and {j}" for i, j in pairs if i < j)
        yield Finding(
            "peer access",
            not pairs,
            f"not between {apart}" if pairs else "between all pairs",
            Need.RUN,
            "such GPUs need realization nccl; see nvidia-smi topo -p2p r, and IOMMU settings",
        )
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    yield Finding(
        "C compiler",
        compiler is not None,
        compiler or "none",
        Need.RUN,
        "Triton builds its launcher with one: apt-get install gcc",
    )


_LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _look_at_python,
    _look_at_package,
    _look_at_triton,
    _look_at_cache,
    _look_at_torch,
    _look_at_gpus,
)


def _find_package(name: str, oldest: tuple[int, int], need: Need, fix: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        return Finding(name, False, "not installed", need, fix)
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(name, False, "a folder without a version", need, fix)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    return Finding(name, numbers >= oldest, version, need, fix)


def _find_driver() -> str | None:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int()
    if library.cuDriverGetVersion(ctypes.byref(number)) != 0:
        return None
    return f"for CUDA {number.value // 1000}.{number.value % 1000 // 10}"


def _describe_gpus() -> tuple[tuple[Mapping[str, Any], ...], tuple[tuple[bool, ...], ...]]:
    if importlib.util.find_spec("torch") is None:
        return (), ()
    import torch

    if not torch.cuda.is_available():
        return (), ()
    count = torch.cuda.device_count()
    gpus = []
    for number in range(count):
        found = torch.cuda.get_device_properties(number)
        gpus.append(
            {
                "name": found.name,
                "target": f"sm_{found.major}{found.minor}",
                "detail": f"{found.multi_processor_count} multiprocessors, {found.total_memory >> 30} GiB",
            }
        )
    peers = tuple(
        tuple(i == j or bool(torch.cuda.can_device_access_peer(i, j)) for j in range(count))
        for i in range(count)
    )
    return tuple(gpus), peers


def measure_links() -> dict[str, float]:
    """GB/s of copies of 256 MiB from each GPU to each other one, by "i-j"; one direction at a time."""
    import torch

    count = torch.cuda.device_count()
    links = {}
    for i in range(count):
        source = torch.empty(_COPIED_BYTES, dtype=torch.int8, device=f"cuda:{i}")
        for j in range(count):
            if i == j:
                continue
            target = torch.empty_like(source, device=f"cuda:{j}")
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize(i)
            with torch.cuda.device(i):
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                for _ in range(_COPIES):
                    target.copy_(source, non_blocking=True)
                end.record()
                end.synchronize()
            links[f"{i}-{j}"] = _COPIES * _COPIED_BYTES / begin.elapsed_time(end) / 1e6
    return links
