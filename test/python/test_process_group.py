"""What the ranks of a torch process group have together, where no GPU is needed."""

import json

import pytest

pytest.importorskip("torch")
import group_names
import torch.multiprocessing as mp


def test_memory_of_a_group_that_is_made_anew_has_a_name_of_its_own(tmp_path):
    world = group_names.WORLD
    mp.start_processes(group_names.name_memory, (tmp_path,), nprocs=world, start_method="spawn")
    names, others = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(world))
    assert names == others
    assert len(set(names)) == group_names.TURNS
