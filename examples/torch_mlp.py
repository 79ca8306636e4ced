"""A gated MLP with tensor and sequence parallelism, trained for some steps: by plain torch, and by fused operators.

    torchrun --nproc-per-node 2 examples/torch_mlp.py

On GPUs it also says what a step takes; where there are none, processes talk by gloo, operators are a product and a
collective, and sizes are small. Both ways start from the same weights and see the same tokens, so losses have to agree.
"""

import argparse
import os
import statistics

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.nn.functional import silu

import syncopate.torch as st


class Mlp(nn.Module):
    """This rank's part of the features, on its part of the tokens outside and on all of them inside."""

    def __init__(self, features: int, hidden: int, fused: bool, **make: object) -> None:
        super().__init__()
        world = dist.get_world_size()
        self.fused, self.group = fused, dist.group.WORLD.group_name
        self.gate = nn.Parameter(torch.empty(hidden // world, features, **make))
        self.up = nn.Parameter(torch.empty(hidden // world, features, **make))
        self.down = nn.Parameter(torch.empty(features, hidden // world, **make))
        for weight in self.parameters():
            nn.init.normal_(weight, std=features**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens / ranks, features] → the same."""
        gate, up, down = (weight.t() for weight in (self.gate, self.up, self.down))
        if self.fused:
            # One gather serves both products.
            _, (g, u) = st.all_gather_matmul(x, [gate, up], 0, self.group, return_A=False)
            return st.matmul_reduce_scatter(silu(g) * u, down, "sum", 0, self.group)
        whole = funcol.all_gather_tensor_autograd(x, 0, self.group)
        hidden = silu(whole @ gate) * (whole @ up)
        return funcol.reduce_scatter_tensor_autograd(hidden @ down, "sum", 0, self.group)


def train(fused: bool, device: torch.device, options: argparse.Namespace) -> list[float]:
    """Losses of all steps, over all ranks; on GPUs, prints the time of a step."""
    torch.manual_seed(dist.get_rank())
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    mlp = Mlp(options.features, options.hidden, fused, device=device, dtype=dtype)
    model = torch.compile(mlp) if options.compile else mlp
    optimizer = torch.optim.Adam(mlp.parameters(), lr=2e-3)
    shape = (options.tokens // dist.get_world_size(), options.features)
    x, target = (torch.randn(shape, device=device).to(dtype) for _ in range(2))
    losses, times = [], []
    for _ in range(options.steps):
        events = []
        if device.type == "cuda":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
        optimizer.zero_grad()
        loss = (model(x) - target).float().square().mean()
        loss.backward()
        optimizer.step()
        if events:
            events[1].record()
            torch.cuda.synchronize()
            times.append(events[0].elapsed_time(events[1]))
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / dist.get_world_size())
    if times and dist.get_rank() == 0:
        # The first steps compile and load.
        name = "fused operators" if fused else "plain torch"
        print(f"{name}: {statistics.median(times[len(times) // 2 :]):.2f} ms for a step")
    return losses


def main() -> None:
    """One rank, started by torchrun."""
    on_gpus = torch.cuda.is_available()
    tokens, features, hidden = (8192, 4096, 14336) if on_gpus else (256, 64, 224)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, default=tokens)
    parser.add_argument("--features", type=int, default=features)
    parser.add_argument("--hidden", type=int, default=hidden)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    options = parser.parse_args()
    if "LOCAL_RANK" not in os.environ:
        parser.error(
            "expects several ranks; start it by torchrun --nproc-per-node 2 examples/torch_mlp.py"
        )

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpus else torch.device("cpu")
    if on_gpus:
        torch.cuda.set_device(device)
    else:
        os.environ["SYNCOPATE_TORCH_FALLBACK"] = "1"
    dist.init_process_group("nccl" if on_gpus else "gloo")
    plain, fused = (train(each, device, options) for each in (False, True))
    error = max(abs(a - b) / a for a, b in zip(plain, fused, strict=True))
    if dist.get_rank() == 0:
        print(f"loss {plain[0]:.4f} -> {plain[-1]:.4f}, by fused operators {fused[-1]:.4f}")
        print(f"largest relative difference of losses: {error:.1e}")
    dist.destroy_process_group()
    assert plain[-1] < plain[0], "the loss has not fallen"
    assert error < (1e-2 if on_gpus else 1e-5), "losses differ"


if __name__ == "__main__":
    main()
