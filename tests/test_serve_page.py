"""The page in a real browser: Debian's Chromium, driven by Playwright."""

import csv
import json
import os
import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from chromium import find_chromium, open_browser
from linda import Interpolator
from linda.cli import main
from linda.web.bench_results import checked_folder
from linda.web.interpolation import ScoredInterpolator
from linda.web.origins import word_origins
from serving import HOTEL, ROOM, Serving, serving
from test_serve_bench import CELLS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Page

pytest.importorskip("playwright", reason="the browser tests need Playwright: pip install playwright")
if find_chromium() is None:
    pytest.skip("the browser tests need Chromium: apt-get install chromium", allow_module_level=True)

from playwright.sync_api import expect

expect.set_options(timeout=30_000)  # allow for a busy machine

PATH_TEXTS = "#path-list button > span:nth-child(2)"

CSV = "text,label\n" + "".join(
    f"{text},{label}\n"
    for text, label in (
        ("The room was clean and the bed was soft.", "good"),
        ("We were tired and the room was loud.", "bad"),
        ("The staff helped us with everything.", "good"),
        ("Nobody answered when we called the desk.", "bad"),
    )
)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with open_browser() as browser:
        yield browser


@pytest.fixture
def page(browser: "Browser", server: Serving) -> Iterator["Page"]:
    """A new tab of a new profile. Whatever the page logs as an error fails the test."""
    context = browser.new_context(base_url=server.address, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.address)
    page = context.new_page()
    page.set_default_timeout(30_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if is_fault(message) else None)
    yield page
    context.close()
    assert errors == []


def is_fault(message: "ConsoleMessage") -> bool:
    """An error other than an API response: Chromium logs those too, and the page displays them."""
    is_answer = message.text.startswith("Failed to load resource") and "/v1/" in message.location["url"]
    return message.type == "error" and not is_answer


def write_path(page: "Page", a: str = HOTEL, b: str = ROOM, steps: int = 11) -> None:
    page.get_by_label("First text", exact=True).fill(a)
    page.get_by_label("Second text", exact=True).fill(b)
    page.get_by_role("button", name="Write the path").click()
    expect(page.locator("#path-list .numbers")).to_have_count(steps)
    expect(page.locator("#path-status")).to_be_empty()


# --- path -----------------------------------------------------------------------------------------------------


def test_the_path_and_its_slider(page: "Page", embedded: Interpolator) -> None:
    page.goto("/")
    write_path(page)
    alpha = [step / 10 for step in range(11)]
    expected = embedded.mix([HOTEL] * 11, [ROOM] * 11, alpha)[::-1]  # the first text stands at the left
    slider = page.get_by_label("Share of the first text")
    for index in (0, 3, 5, 10):
        slider.fill(str(index))
        expect(page.locator("#output")).to_have_text(expected[index])
        expect(slider).to_have_attribute("aria-valuetext", f"{100 - 10 * index} % first text")
    assert page.locator(PATH_TEXTS).all_text_contents() == expected
    expect(page.locator("#strip circle")).to_have_count(11)
    expect(page.locator("#strip rect")).to_have_count(11)


def test_words_are_marked_by_origin_in_colour_and_line(page: "Page", embedded: Interpolator) -> None:
    page.goto("/")
    write_path(page)
    page.get_by_label("Share of the first text").fill("3")
    pieces = word_origins(embedded.mix(HOTEL, ROOM, alpha=0.7), HOTEL, ROOM)
    for origin, name in (("a", "first text"), ("b", "second text"), ("both", "both"), ("neither", "neither")):
        words = [text for text, of in pieces if of == origin]
        expect(page.locator(f"#output .from-{origin}")).to_have_text(words)
        expect(page.locator("#legend")).to_contain_text(f"{name}{len(words)}")
    first = page.locator("#path-list .from-a").first
    second = page.locator("#path-list .from-b").first
    assert css(first, "text-decoration-style") == "solid"
    assert css(second, "text-decoration-style") == "dashed"
    assert css(first, "color") != css(second, "color")


def css(locator, name: str) -> str:  # type: ignore[no-untyped-def]
    return locator.evaluate("(node, name) => getComputedStyle(node).getPropertyValue(name)", name)


def test_raw_and_calibrated(page: "Page", embedded: Interpolator) -> None:
    page.goto("/")
    write_path(page)
    page.get_by_text("Raw", exact=True).click()
    raw = embedded.mix([HOTEL] * 11, [ROOM] * 11, [step / 10 for step in range(11)], raw=True)[::-1]
    expect(page.locator(PATH_TEXTS)).to_have_text(raw)


def test_candidates_samples_and_a_link_that_holds_them(page: "Page", embedded: Interpolator) -> None:
    page.goto("/")
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("Ratios").select_option("21")
    page.get_by_label("Candidates", exact=True).fill("2")
    page.get_by_label("Sample").check()
    page.locator("#seed").fill("4")
    write_path(page, steps=21)
    alpha = [step / 20 for step in range(21)]
    expected = embedded.mix([HOTEL] * 21, [ROOM] * 21, alpha, n=2, sample=True, seed=4)[::-1]
    page.get_by_label("Share of the first text").fill("9")
    expect(page.locator("#output")).to_have_text(expected[9][0])
    expect(page.locator("#candidates li")).to_have_text([expected[9][1]])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("#copied")).to_have_text("The link is copied.")
    link = page.evaluate("() => navigator.clipboard.readText()")
    assert "#path?" in link
    assert "hotel" not in link.split("#")[0]
    page.goto("about:blank")
    page.goto(link)
    expect(page.locator("#output")).to_have_text(expected[9][0])
    expect(page.locator("#seed")).to_have_value("4")


@pytest.mark.parametrize(
    ("values", "is_raw"),
    [
        ({}, False),
        ({"steps": "21", "beams": "2"}, True),
        ({"n": "2", "beams": "3"}, False),
        ({"n": "2", "sample": "", "seed": "5", "temperature": "0.7"}, False),
        ({"beams": "2", "sample": ""}, True),  # beams do not apply to samples
    ],
)
def test_the_copied_command_and_python_give_the_same_path(page: "Page", values: dict[str, str], is_raw: bool) -> None:
    page.goto("/")
    page.get_by_text("Settings", exact=True).click()
    for name, value in values.items():
        field = page.locator(f"#{name}")
        if name == "sample":
            field.check()
        elif name == "steps":
            field.select_option(value)
        else:
            field.fill(value)
    quotes = "It's the guest's \"favourite\" room."
    steps = int(values.get("steps", 11))
    write_path(page, a=quotes, steps=steps)
    if is_raw:
        with page.expect_response("**/v1/interpolate"):
            page.get_by_text("Raw", exact=True).click()
        expect(page.locator("#path-status")).to_be_empty()
    shown = page.locator(PATH_TEXTS).all_text_contents()
    candidates = int(values.get("n", 1))
    page.get_by_role("button", name="Copy as command").click()
    expect(page.locator("#copied")).to_have_text("The command is copied.")
    program, *arguments = shlex.split(page.evaluate("() => navigator.clipboard.readText()"))
    assert program == "linda"
    lines = CliRunner().invoke(main, arguments).stdout.splitlines()
    assert len(lines) == steps * candidates
    assert [line.split("\t")[1] for line in lines[::candidates]][::-1] == shown
    page.get_by_role("button", name="Copy as Python").click()
    expect(page.locator("#copied")).to_have_text("The Python code is copied.")
    code = page.evaluate("() => navigator.clipboard.readText()")
    printed: list[Any] = []
    exec(code, {"print": lambda *texts, sep: printed.extend(texts)})
    assert [text if candidates == 1 else text[0] for text in printed][::-1] == shown


def test_markup_in_a_text_stays_text(page: "Page", server: Serving) -> None:
    evil = '<script>document.title="hacked"</script><img src=x onerror=alert(1)> is bad.'
    page.goto("/")
    write_path(page, a=evil)
    page.get_by_label("Share of the first text").fill("0")
    expect(page.locator("#output")).to_contain_text("script")
    assert page.locator("#path-result script, #path-result img").count() == 0
    assert page.title() == "LINDA"
    page.goto("/#table")
    page.get_by_text("Or paste rows").click()
    page.get_by_label("CSV, with the column names").fill(
        f'text,label\n"{evil.replace(chr(34), chr(34) * 2)}",<b>\nfine text,<b>\n'
    )
    page.get_by_role("button", name="Use these rows").click()
    expect(page.locator("#first-rows")).to_contain_text("<script>document.title")
    assert page.locator("#view-table script, #view-table img, #view-table td b").count() == 0
    assert page.title() == "LINDA"


def test_an_error_is_shown_in_words(page: "Page") -> None:
    page.goto("/")
    page.get_by_label("First text", exact=True).fill("x" * 2001)
    page.get_by_role("button", name="Write the path").click()
    expect(page.locator("#path-status")).to_contain_text("2,001 characters; this server accepts at most 2,000")


def test_by_keyboard_alone(page: "Page") -> None:
    page.goto("/")
    expect(page.get_by_label("First text", exact=True)).to_have_value(HOTEL)
    page.keyboard.press("Tab")
    expect(page.locator("#skip")).to_be_focused()
    page.keyboard.press("Enter")
    order = ["#text-a", "#text-b", "#path-run"]
    for selector in order:
        page.keyboard.press("Tab")
        expect(page.locator(selector)).to_be_focused()
    assert css(page.locator("#path-run"), "outline-style") == "solid"
    page.keyboard.press("Enter")
    expect(page.locator("#path-list .numbers")).to_have_count(11)
    for selector in ("#example", "#path-settings summary", "#alpha"):
        page.keyboard.press("Tab")
        expect(page.locator(selector)).to_be_focused()
    before = page.locator("#ratio-shown").text_content()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#ratio-shown")).not_to_have_text(str(before))
    page.keyboard.press("End")
    expect(page.locator("#ratio-shown")).to_have_text("α = 0")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")  # raw
    expect(page.locator('input[value="raw"]')).to_be_checked()


def test_every_field_has_a_name_and_live_regions_are_there(page: "Page") -> None:
    page.goto("/")
    write_path(page)
    for view in ("path", "table", "bench"):
        page.goto(f"/#{view}")
        for control in page.locator("input, select, textarea, button, progress").all():
            if control.is_visible():
                name = control.evaluate("node => node.labels?.[0]?.textContent ?? node.ariaLabel ?? node.textContent")
                assert name.strip(), control
    assert page.locator("#output").get_attribute("aria-live") == "polite"
    assert page.locator("[role=status]").count() >= 4


@pytest.mark.skipif(os.getloadavg()[0] > (os.cpu_count() or 1), reason="others use the processor: times say nothing")
def test_the_first_path_comes_within_three_seconds(page: "Page") -> None:
    page.goto("/")
    page.get_by_label("First text", exact=True).fill("We walked along the river until the sun went down.")
    page.get_by_label("Second text", exact=True).fill("They waited inside the station because the rain was heavy.")
    begun = time.monotonic()
    page.get_by_role("button", name="Write the path").click()
    expect(page.locator("#path-list .numbers")).to_have_count(11)
    assert time.monotonic() - begun < 3


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen(page: "Page", width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto("/")
    write_path(page)
    for view in ("path", "table", "bench"):
        page.goto(f"/#{view}")
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser: "Browser", server: Serving, scheme: str) -> None:
    """WCAG AA: 4.5 to 1, of the ink, the muted text and both origins, on the page and on cards."""
    context = browser.new_context(base_url=server.address, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto("/")
    colours = page.evaluate(
        "() => Object.fromEntries(['paper','surface','ink','muted','first','second','bad'].map("
        "name => [name, getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim()]))"
    )
    context.close()
    for ink in ("ink", "muted", "first", "second", "bad"):
        for paper in ("paper", "surface"):
            assert contrast(colours[ink], colours[paper]) >= 4.5, (ink, paper)


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- table ----------------------------------------------------------------------------------------------------


def upload(page: "Page", folder: Path, text: str) -> Path:
    file = folder / "reviews.csv"
    file.write_text(text)
    page.goto("/#table")
    page.locator("#file").set_input_files(file)
    expect(page.locator("#table-name")).to_contain_text("reviews.csv")
    return file


def test_from_upload_to_download(page: "Page", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    upload(page, tmp_path, CSV)
    page.get_by_label("Partners").select_option("any")
    page.get_by_label("Per row").fill("2")
    page.get_by_role("button", name="Preview 20 rows").click()
    expect(page.locator("#preview-rows .card").first).to_be_visible()
    expect(page.locator("#preview-summary")).to_contain_text("of the first 8 planned; 8 in all")
    expect(page.locator("#preview-rows .card").first.get_by_label("Parents").locator("li")).to_have_count(2)
    page.get_by_role("button", name="Make all rows").click()
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    with page.expect_download() as downloaded:
        page.get_by_role("button", name="Download").click()
    assert downloaded.value.suggested_filename == "reviews-augmented.csv"
    command = shlex.split(str(page.locator("#command").text_content()))
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(main, command[1:])
    assert ran.exit_code == 0, ran.stderr
    assert Path(downloaded.value.path()).read_bytes() == Path("reviews-augmented.csv").read_bytes()


def test_a_table_by_keyboard_alone(page: "Page") -> None:
    page.goto("/#table")
    expect(page.locator("#about")).to_contain_text("engine")  # the page knows the server
    page.evaluate("text => navigator.clipboard.writeText(text)", CSV)
    tab_to(page, ".paste summary")
    page.keyboard.press("Enter")
    tab_to(page, "#pasted")
    page.keyboard.press("Control+V")
    expect(page.locator("#pasted")).to_have_value(CSV)
    tab_to(page, "#paste-form button")
    page.keyboard.press("Enter")
    expect(page.locator("#set-text")).to_be_focused()
    tab_to(page, "#set-method")
    page.keyboard.type("eda")
    tab_to(page, "#preview")
    page.keyboard.press("Enter")
    expect(page.locator("#preview-rows .card")).to_have_count(4)
    tab_to(page, "#run-all")
    page.keyboard.press("Enter")
    expect(page.locator("#download")).to_be_visible()
    tab_to(page, "#download")
    with page.expect_download() as downloaded:
        page.keyboard.press("Enter")
    with Path(downloaded.value.path()).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert "".join(f"{row['text']},{row['label']}\n" for row in rows[:4]) == CSV.removeprefix("text,label\n")
    assert [row["method"] for row in rows] == ["original"] * 4 + ["eda"] * 4


def tab_to(page: "Page", selector: str, most: int = 20) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.locator(selector).evaluate("node => node === document.activeElement"):
            return
    raise AssertionError(f"{selector} is not reached with {most} tabs")


def test_a_run_survives_a_reload_and_can_be_stopped(page: "Page", tmp_path: Path) -> None:
    rows = "".join(f"Text number {number} of a long table about things.,x\n" for number in range(3000))
    upload(page, tmp_path, f"text,label\n{rows}")
    page.get_by_text("More settings").click()
    page.locator("#set-seed").fill("3")
    page.get_by_role("button", name="Make all rows").click()
    expect(page.locator("#run-status")).to_contain_text(re.compile(r"[1-9][\d,]* of 3,000"))
    page.reload()
    expect(page.locator("#run-status")).to_contain_text(re.compile(r"[1-9][\d,]* of 3,000"))
    expect(page.locator("#table-name")).to_contain_text("3,000 rows")
    expect(page.locator("#set-seed")).to_have_value("3")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#run-status")).to_have_text("Stopped.")
    expect(page.get_by_role("button", name="Make all rows")).to_be_enabled()


# --- bench, API, token ----------------------------------------------------------------------------------------


def test_bench_results_follow_a_run(
    browser: "Browser", scored_interpolator: ScoredInterpolator, tmp_path: Path
) -> None:
    cells = tmp_path / "results" / "cells"
    cells.mkdir(parents=True)
    for number, cell in enumerate(CELLS[:4]):
        (cells / f"{number}.json").write_text(json.dumps(cell))
    with serving(scored_interpolator, bench=[checked_folder(str(cells.parent))]) as running:
        page = browser.new_page()
        page.goto(f"{running.address}/#bench")
        expect(page.locator("#bench-status")).to_contain_text("4 cells")
        for number, cell in enumerate(CELLS[4:], start=4):
            (cells / f"{number}.json").write_text(json.dumps(cell))
        expect(page.locator("#bench-status")).to_contain_text("6 cells")
        expect(page.locator("#advice")).to_have_text("On sst2 (5-shot): eda gains 5.0 ± 0.2 points over vanilla.")
        expect(page.get_by_role("cell", name="+5.0 ± 0.2")).to_be_visible()
        expect(page.get_by_role("img", name="Gain over vanilla in points, sst2 5-shot")).to_be_visible()
        page.locator("#bench-files").set_input_files(cells.parent)
        expect(page.locator("#bench-status")).to_contain_text("6 cells, as it was when opened")
        page.close()


def test_the_api_page_lists_the_routes(page: "Page") -> None:
    page.goto("/api")
    expect(page.get_by_role("heading", name="POST /v1/interpolate")).to_be_visible()
    expect(
        page.locator(".route").filter(has_text="POST /v1/augment").get_by_text("partners", exact=True)
    ).to_be_visible()


def test_the_page_asks_for_the_token(browser: "Browser", scored_interpolator: ScoredInterpolator) -> None:
    token = "a-token-of-some-length"
    with serving(scored_interpolator, token=token) as running:
        page = browser.new_page()
        page.goto(running.address)
        page.get_by_label("This server requires a token.").fill(token)
        page.get_by_role("button", name="Continue").click()
        expect(page.locator("#about")).to_contain_text("LINDA")
        write_path(page)
        page.close()
        api = browser.new_page()  # a tab that does not know the token
        api.goto(f"{running.address}/api")
        api.get_by_label("This server requires a token.").fill(token)
        api.get_by_role("button", name="Continue").click()
        expect(api.get_by_role("heading", name="POST /v1/interpolate")).to_be_visible()
        with api.expect_download() as downloaded:
            api.get_by_role("link", name="openapi.json").click()
        assert downloaded.value.suggested_filename == "openapi.json"
        assert "/v1/interpolate" in json.loads(Path(downloaded.value.path()).read_text())["paths"]
        api.close()
        linked = browser.new_page()
        linked.goto(f"{running.address}/#token={token}")
        expect(linked.locator("#about")).to_contain_text("LINDA")
        assert token not in linked.url
        linked.close()
