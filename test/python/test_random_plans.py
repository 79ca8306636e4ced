"""Random gathers: each block reaches each rank by some way, put or got, by either realization."""

import random

import pytest

from syncopate.show.plan_file import schedule_plan
from syncopate.sim import Gemm, execute_tables


def random_plan(seed):
    """A plan in which every rank gets all blocks, each from a random rank that has it by then."""
    draw = random.Random(seed)
    world, rows, depth = draw.randint(2, 5), draw.randint(20, 90), 16
    kind = f"!chunk.buffer<{rows}x{depth}xbf16>"
    cuts = sorted(draw.sample(range(1, rows), draw.randint(world - 1, world + 3)))
    blocks = list(zip([0, *cuts], [*cuts, rows], strict=True))
    lines, tokens, holders = [], [], {}
    for index, (begin, end) in enumerate(blocks):
        owner = draw.randrange(world)
        holders[index] = {owner: None}
        lines.append(f"chunk.input %a[{begin}, 0] sizes [{end - begin}, {depth}] on {owner}")
        lines[-1] += f" : {kind}"
    missing = [(b, r) for b in holders for r in range(world) if r not in holders[b]]
    draw.shuffle(missing)
    for number, (block, dst) in enumerate(missing):
        src = draw.choice(list(holders[block]))
        token, before = f"%t{number}", holders[block][src]
        begin, end = blocks[block]
        verb = draw.choice(["put", "get"])
        line = f"{token} = chunk.{verb} %a[{begin}, 0] to %a[{begin}, 0] "
        line += f"sizes [{end - begin}, {depth}] from {src} to {dst} "
        line += f"after({before}) " if before else ""
        line += f"realize {draw.choice(['copy_engine', 'ldst_colocated'])} : {kind} to {kind}"
        lines.append(line)
        tokens.append(token)
        holders[block][dst] = token
    height, ctas = draw.randint(5, 40), draw.randint(1, 5)
    tiles = -(-rows // height)
    after = f" after({', '.join(tokens)})" if tokens else ""
    lines.append(
        f'chunk.kernel @k tiles [{tiles}, 2] ctas {ctas} args(%a as "a"){after} : {kind} {{'
    )
    lines.append(f'chunk.footprint read "a" at affine_map<(m, n) -> (m * {height}, 0)> ')
    lines[-1] += f"sizes [{height}, {depth}] }}"
    body = "\n  ".join([f'%a = chunk.buffer "a" : {kind}', *lines])
    return f"chunk.plan @p mesh [{world}] {{\n  {body}\n}}\n", draw.randint(1, 3)


@pytest.mark.parametrize("seed", range(60))
def test_random_plan_computes_the_right_thing(seed):
    text, splits = random_plan(seed)
    schedule = schedule_plan(text, f"splits={splits}")
    gemm = Gemm((schedule.tile_shape[0], 4), 8)
    for interleaving in range(3):
        assert execute_tables(schedule, gemm, calls=4, seed=interleaving).max_error < 1e-5
