"""Draws the pictures of docs/pictures/ that come from the package: chunks, ring, timeline.

Usage: draw_pictures.py
"""

import sys
from pathlib import Path

from syncopate import GemmWorkload, Strategy
from syncopate.kernels import GemmConfig
from syncopate.model import find_preset, predict
from syncopate.plan.plan_file import schedule_plan
from syncopate.show import draw_schedule
from syncopate.show.svg import CARD, FAINT, INK, LINE, Drawing, rank_colour
from syncopate.show.timeline import draw_timeline

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures"


def draw_chunks() -> str:
    """A buffer of two ranks' rows in four chunks, and a grid of tiles whose rows end elsewhere."""
    picture = Drawing()
    top, height = 100, 240
    picture.text(24, 38, "Chunks move, tiles compute", size=20, weight=600)
    picture.text(40, 80, "buffer a at rank 0: four chunks", size=14, weight=600)
    names = ("a[0:128]", "a[128:256]", "a[256:384]", "a[384:512]")
    for number, name in enumerate(names):
        y, tall = top + number * height / 4, height / 4 - 4
        picture.rect(40, y, 230, tall, rank_colour(number // 2), radius=4)
        picture.text(52, y + 24, name, fill=CARD, weight=600)
        held = "its own input" if number < 2 else f"brought from rank 1 by transfer {number - 2}"
        picture.text(52, y + 42, held, size=11, fill=CARD)
    picture.text(420, 80, "the kernel at rank 0: three rows of tiles", size=14, weight=600)
    said = ("starts at once", "waits for transfer 0", "waits for transfers 0 and 1")
    for row, words in enumerate(said):
        y, tall = top + row * height / 3, height / 3 - 4
        for column in range(4):
            x = 420 + column * 70
            picture.rect(x, y, 66, tall, CARD, stroke=LINE, radius=4)
            picture.text(x + 33, y + tall / 2 + 4, f"{row},{column}", anchor="middle", weight=600)
        # The rows of the buffer that these tiles read, coloured as on the left.
        own = max(0.0, min(tall, height / 2 - row * height / 3))
        picture.rect(396, y, 10, own, rank_colour(0))
        picture.rect(396, y + own, 10, tall - own, rank_colour(1))
        picture.text(714, y + tall / 2 + 4, words, fill=INK if row else FAINT)
    picture.text(
        396, top + height + 22, "left of each row: the rows of a that it reads", size=11, fill=FAINT
    )
    # Text does not widen a picture; what surrounds it does.
    picture.rect(0, top, 890, height + 20, "none")
    return picture.document()


def draw_timeline_of_gemm_rs() -> str:
    """The predicted timeline that docs/concepts.md shows."""
    machine, config = find_preset("h200-w2"), GemmConfig()
    workload = GemmWorkload("gemm_rs", m=4096, n=4096, k=2048, world_size=2)
    schedule = workload.schedule(Strategy(), config)
    return draw_timeline(predict(schedule, workload.cost(config, machine), machine))


def draw_ring() -> str:
    """The schedule of examples/plans/ring_by_hand.mlir."""
    text = (ROOT / "examples" / "plans" / "ring_by_hand.mlir").read_text(encoding="utf-8")
    return draw_schedule(schedule_plan(text), title="ring_by_hand on 3 ranks")


def main() -> int:
    """Entry point."""
    pictures = {"chunks": draw_chunks, "ring": draw_ring, "timeline": draw_timeline_of_gemm_rs}
    for name, draw in pictures.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
