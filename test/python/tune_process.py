"""One rank of a tuning with made-up times, in a process of its own: `tune_process.py RANK WORLD FILE FOLDER`."""

import json
import sys
from pathlib import Path

import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parent))
from tune_fakes import FakeBench, FakeSubject

from syncopate.model import find_preset
from syncopate.tune import Auto, Effort, TuningCache, choose


def main() -> None:
    rank, world, file, folder = sys.argv[1:]
    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=int(rank), world_size=int(world)
    )
    auto = Auto(
        measure=True,
        machine=find_preset("h200-w2"),
        cache=TuningCache(folder),
        effort=Effort(top=3, rounds=3, final_rounds=3, finalists=2),
    )
    report = choose(FakeSubject(world_size=int(world)), auto, FakeBench(skew=float(rank)))
    print(json.dumps({**report.to_json(), "seconds": 0, "compile_seconds": 0}))
    dist.destroy_process_group()


main()
