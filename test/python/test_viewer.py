"""The page that shows runs: what it holds, and what it does in a real browser, where there is one."""

import dataclasses
import re
from pathlib import Path

import pytest
from profile_runs import two_ranks

from syncopate.cli import main
from syncopate.errors import SyncopateError
from syncopate.profile import TimeSource, Track
from syncopate.show.screenshot import BROWSER_VARIABLE, find_browser, take_picture
from syncopate.show.viewer import draw_runs

pytestmark = pytest.mark.any_triton


def both():
    return [two_ranks(), dataclasses.replace(two_ranks(us=120.0), source=TimeSource.PREDICTED)]


def test_page_loads_nothing():
    page = draw_runs(both())
    assert not re.search(r"https?:|src=|href=|url\(|@import|fetch\(|XMLHttp", page)


def test_texts_cannot_end_the_script():
    run = two_ranks()
    evil = "</script><script>alert(1)</script>"
    spans = [dataclasses.replace(span, name=evil) for span in run.tracks[1].spans]
    tracks = (dataclasses.replace(run.tracks[1], spans=tuple(spans)),)
    page = draw_runs([dataclasses.replace(run, tracks=tracks, name="a <b>", links=())])
    assert page.count("</script>") == 1 and "<title>a &lt;b&gt;: timeline</title>" in page


def test_many_links_of_a_rank_share_a_row():
    run = two_ranks()
    link = run.links[0]
    links = tuple(dataclasses.replace(link, dst=dst) for dst in range(2, 8))
    tracks = (*run.tracks, *(Track(rank, None, 0, None, 0, 1, ()) for rank in range(2, 8)))
    page = draw_runs([dataclasses.replace(run, world_size=8, links=links, tracks=tracks)])
    assert "→ 6 ranks" in page and "→ rank 3" not in page


def test_picture_needs_a_browser(tmp_path, monkeypatch):
    monkeypatch.setenv(BROWSER_VARIABLE, "no-such-browser")
    with pytest.raises(SyncopateError, match=f"there is no .* name it in {BROWSER_VARIABLE}"):
        take_picture(tmp_path / "page.html", tmp_path / "page.png")


def test_picture_cannot_be_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(BROWSER_VARIABLE, "true")
    with pytest.raises(SyncopateError, match=r"picture: cannot write .*: Is a directory"):
        take_picture(tmp_path / "page.html", tmp_path)


needs_browser = pytest.mark.skipif(
    find_browser() is None, reason="there is no Chromium; SYNCOPATE_BROWSER can name one"
)


@needs_browser
def test_picture_is_written(tmp_path):
    page, picture = tmp_path / "page.html", tmp_path / "page.png"
    page.write_text(draw_runs(both()), encoding="utf-8")
    take_picture(page, picture, size=(800, 600))
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert [int.from_bytes(head[at : at + 4], "big") for at in (16, 20)] == [800, 600]


@pytest.fixture(scope="module")
def window():
    """A window of a real browser."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if find_browser() is None:
        pytest.skip("there is no Chromium; SYNCOPATE_BROWSER can name one")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


@pytest.fixture
def page(window, tmp_path):
    """The page of two runs; nothing it does may fail or ask for anything."""
    faults, asked = [], []
    window.on("pageerror", lambda error: faults.append(str(error)))
    window.on("request", lambda request: asked.append(request.url))
    file = tmp_path / "page.html"
    file.write_text(draw_runs(both()), encoding="utf-8")
    window.goto(file.as_uri())
    yield window
    assert faults == [] and asked == [file.as_uri()]


def hover(page, panel, row, us):
    """What the page says of a moment of a row."""
    at = page.evaluate("([p, r, t]) => timeline.locate(p, r, t)", [panel, row, us])
    page.mouse.move(at["x"], at["y"])
    return page.locator("#tip").inner_text()


def colour_at(page, panel, row, us):
    """Red, green and blue of a moment of a row, beside the line of the critical path."""
    return page.evaluate(
        """([p, r, t]) => {
          const at = timeline.locate(p, r, t), canvas = timeline.panels[p].canvas;
          const box = canvas.getBoundingClientRect(), ratio = canvas.width / box.width;
          const [x, y] = [(at.x - box.left) * ratio, (at.y - box.top - 4) * ratio];
          return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data].slice(0, 3);
        }""",
        [panel, row, us],
    )


def test_hovering_says_what_there_is(page):
    assert "tile 0\n30.00 µs, from 0.00 to 30.00" in hover(page, 0, 0, 15)
    said = hover(page, 0, 0, 45)
    assert said.startswith("wait for data from rank 1\na flag\n30.00 µs, from 32.00 to 62.00")
    assert "tile 1\n70.00 µs, from 30.00 to 100.0, on the critical path" in said
    assert said.endswith("rank 0, compute, CTA 0, SM 7")
    assert "transfer chunk 0\n18.00 µs" in hover(page, 0, 2, 50)
    assert "nothing at" in hover(page, 0, 1, 95)


def test_colours_are_those_of_causes(page):
    tile, wait = colour_at(page, 0, 0, 15), colour_at(page, 0, 0, 45)
    sent, produced = colour_at(page, 0, 2, 50), colour_at(page, 0, 2, 20)
    assert tile == [0xC9, 0xD1, 0xDA]
    assert wait == sent == [0xED, 0xA4, 0x3B]
    assert produced == [0x8E, 0x5E, 0xA8]
    legend = page.locator("#legend li").all_inner_texts()
    assert "transfer from rank 1, wait for data from rank 1" in legend
    assert "wait for tiles of rank 1" in legend


def test_zooming_and_moving_keep_both_runs_on_one_scale(page):
    before = page.evaluate("[timeline.view.begin, timeline.view.end]")
    assert before == [0, 120]
    at = page.evaluate("timeline.locate(0, 0, 40)")
    page.mouse.move(at["x"], at["y"])
    page.mouse.wheel(0, -500)
    page.wait_for_function("timeline.view.end - timeline.view.begin < 60")
    begin, end = page.evaluate("[timeline.view.begin, timeline.view.end]")
    # What the pointer is at stays where it is.
    assert page.evaluate("timeline.locate(0, 0, 40)")["x"] == pytest.approx(at["x"], abs=0.01)
    assert page.evaluate("timeline.locate(1, 0, 40)")["x"] == pytest.approx(at["x"], abs=0.01)
    page.mouse.down()
    page.mouse.move(at["x"] - 100, at["y"])
    page.mouse.up()
    moved = page.evaluate("[timeline.view.begin, timeline.view.end]")
    assert moved[0] > begin and moved[1] - moved[0] == pytest.approx(end - begin)
    page.dblclick("canvas >> nth=0")
    assert page.evaluate("[timeline.view.begin, timeline.view.end]") == before


def test_path_and_links_can_be_left_out(page):
    def pixels():
        return page.evaluate("timeline.panels[0].canvas.toDataURL()")

    whole, height = pixels(), page.locator("canvas >> nth=0").bounding_box()["height"]
    page.uncheck("#path")
    assert pixels() != whole
    page.check("#path")
    assert pixels() == whole
    page.uncheck("#links")
    assert page.locator("canvas >> nth=0").bounding_box()["height"] < height


def test_words_stand_below(page):
    assert not page.locator("pre >> nth=0").is_visible()
    page.click("summary >> nth=0")
    assert page.locator("pre >> nth=0").is_visible()
    words = page.locator("pre").all_text_contents()
    assert len(words) == 2 and "what to try:" in words[0]
    assert "beside it, predicted: 120.0 µs" in words[0]


def test_command_shows_plans_and_saved_runs(tmp_path, monkeypatch, capsys):
    from syncopate.profile import load_runs, save_runs

    plan = Path(__file__).parents[2] / "examples" / "plans" / "all_gather_push.mlir"
    saved, built = tmp_path / "runs.json", tmp_path / "built.py"
    save_runs([two_ranks()], saved)
    built.write_text(
        "import syncopate\n"
        "plan = syncopate.Plan('built', [2])\n"
        "a = plan.buffer('a', (8, 4), 'f32', shard_axis=0)\n"
        "plan.bind_tiles('k', [2], reads={a: (4, 4)}, after=[plan.all_gather(a)])\n"
    )
    monkeypatch.chdir(tmp_path)
    files = [str(saved), str(plan), str(built)]
    assert main(["timeline", *files, "--tile-us", "3", "--trace", "t.json"]) == 0
    said = capsys.readouterr().out
    assert "built: " in said
    assert "two: 100.0 µs, measured" in said and "all_gather_push: " in said
    assert said.rstrip().endswith("timeline.html\nt.json")
    page = (tmp_path / "timeline.html").read_text(encoding="utf-8")
    assert '"source":"measured"' in page and '"source":"predicted"' in page
    assert load_runs(saved.read_text()) == [two_ranks()]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no.json"], "file: cannot read no.json"),
        (["{file}", "--machine", "no-machine"], "machine: expects the file of a machine"),
        (["{file}", "--out", "no/page.html"], "--out: cannot write"),
        (["{file}", "--options", "splits=x"], "options: splits expects a number"),
    ],
)
def test_command_refuses_what_it_cannot_do(words, message, tmp_path, monkeypatch, capsys):
    plan = Path(__file__).parents[2] / "examples" / "plans" / "all_gather_push.mlir"
    monkeypatch.chdir(tmp_path)
    assert main(["timeline", *(word.format(file=plan) for word in words)]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("us", ["0", "nan", "1e300"])
def test_command_wants_a_time_of_tiles(us, capsys):
    with pytest.raises(SystemExit):
        main(["timeline", "x.mlir", "--tile-us", us])
    assert f"expects a number of µs in (0, 1e+09], but got '{us}'" in capsys.readouterr().err
