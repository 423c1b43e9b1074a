"""The report's page in a real browser: no error, no request, no sideways scrolling, readable in light and dark."""

import os

import browser
import pytest
from sweep_folders import cell, make_sweep, write_cell

from linbet_jax.report.build import write_report

PHONE, DESKTOP = 360, 1280

# Every text's colour against what is painted behind it, as WCAG 2 counts: 4.5 to 1, or 3 to 1 for large letters.
CONTRAST = """
(() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const poor = new Set();
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ['SCRIPT', 'STYLE'].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const svg = element.closest('svg');
    const front = rgba(svg ? style.fill : style.color);
    const [a, b] = [luminance(front), luminance(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    seen += 1;
    if (ratio < (large ? 3 : 4.5)) poor.add(`${walker.currentNode.data.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return [seen, [...poor]];
})()
"""
WIDE = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
# What sticks out of the page though it lies in no box that scrolls by itself.
OUTSIDE = """
[...document.querySelectorAll('body *')].filter((e) => {
  const box = e.getBoundingClientRect();
  return box.width && box.right > innerWidth + 1 && !e.closest('.scroll, pre, nav ul, svg');
}).map((e) => e.tagName + '.' + e.className)
"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Everything that a page can show: long and hostile names, failures, unhealthy seeds, a single seed."""
    folder = tmp_path_factory.mktemp("sweep")
    long = "package.module_with_a_long_name:make_policy_that_has_a_name_without_any_place_to_break"
    cells = [
        cell(s, p, t, radius_scale=r, seeds=6, records=12)
        for s in ("S1", "S3")
        for p in ("tofu", "mom", "oful", long)
        for t in (500, 1000)
        for r in (1.0, 0.03)
    ]
    cells += [cell("a set of one's own, " * 4, "<i>menu</i>", seeds=1), cell("S1", "crt", 500), cell("S3", "crt", 500)]
    make_sweep(
        folder, cells, swept=["radius_scale", "horizon"], failed=[33], missing=[34], unhealthy=[0, 5],
        name="a name " + "that-goes-on-" * 12, overrides=["policies.tofu.delta=0.1"],
    )  # fmt: skip
    write_cell(folder, cells[2], seeds=2)
    return write_report(folder, formats=("html",), panels=3).files[0]


@pytest.fixture(scope="module")
def chromium():
    path = browser.find()
    if path is None:
        assert not os.environ.get("CI"), "no Chromium: see scripts/browser.sh"
        pytest.skip("no Chromium on this machine; scripts/browser.sh installs one where it may")
    with browser.browsing(path) as page:
        yield page


@pytest.fixture
def page(chromium):
    chromium.trouble.clear()
    yield chromium
    assert chromium.trouble == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_is_readable_and_keeps_to_its_width(page, page_file, width, dark):
    page.open(page_file, width=width, dark=dark)
    page.ask("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    scroll, client = page.ask(WIDE)
    assert scroll <= client
    assert page.ask(OUTSIDE) == []
    going_on = "[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)"
    shadows = page.ask(f"{going_on}.map((e) => getComputedStyle(e).backgroundAttachment)")
    assert shadows or width == DESKTOP
    assert set(shadows) <= {"local, local, scroll, scroll"}  # covers that move, shadows that stay
    seen, poor = page.ask(CONTRAST)
    assert seen > 500
    assert poor == []
    ground = page.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(c) for c in ground[4:-1].split(",")) < 200) == dark


@pytest.mark.timeout(120)
def test_the_pictures_are_there_and_text_in_them_is_readable(page, page_file):
    page.open(page_file, width=PHONE)
    small = "[...document.querySelectorAll('svg text')].filter((t) => t.getBoundingClientRect().height > 0)"
    heights = page.ask(f"{small}.map((t) => t.getBoundingClientRect().height)")
    assert len(heights) > 50
    assert min(heights) > 9
    boxes = page.ask("[...document.querySelectorAll('.linear svg')].map((s) => s.getBoundingClientRect().height)")
    assert len(boxes) == 3
    assert min(boxes) > 150


@pytest.mark.timeout(120)
def test_axes_theme_and_copying_work_from_the_keyboard(page, page_file):
    page.open(page_file, width=DESKTOP)
    shown = "[...document.querySelectorAll('.linear, .log')].filter((e) => e.offsetHeight).map((e) => e.className)"
    assert set(page.ask(shown)) == {"linear"}
    page.ask("document.getElementById('axes-linear').focus()")
    page.press("ArrowRight", 39)
    assert set(page.ask(shown)) == {"log"}
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(ground)
    page.ask("document.getElementById('theme').focus()")
    for label, same in (("Theme: light", True), ("Theme: dark", False), ("Theme: system", True)):
        page.ask("document.activeElement.click()")
        assert page.ask("document.getElementById('theme').textContent") == label
        assert (page.ask(ground) == light) == same
    reached = page.ask(
        "[...document.querySelectorAll('.scroll, pre, summary, button, nav a')].every((e) => e.tabIndex >= 0)"
    )
    assert reached
    for name in ("markdown", "latex"):
        page.ask(f"document.getElementById('{name}').closest('details').open = true")
        button = f"document.querySelector('[data-copy={name}]')"
        page.ask(f"{button}.click()")
        page.ask("new Promise((resolve) => setTimeout(resolve, 100))")
        assert page.ask(f"{button}.textContent") in ("Copied", "Selected: press Ctrl+C")


@pytest.mark.timeout(120)
def test_the_check_sees_trouble(chromium, tmp_path):
    """The test's own instruments: an error, a request and a wide box do show up."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<body><div style='width:3000px'>wide</div><p style='color:#ccc'>pale</p><img src='other.png'>"
        "<script>console.error('one'); throw new Error('two')</script>",
        encoding="utf-8",
    )
    chromium.open(bad, width=PHONE)
    told = " ".join(chromium.trouble)
    assert all(word in told for word in ("one", "two", "other.png"))
    scroll, client = chromium.ask(WIDE)
    assert scroll > client
    assert chromium.ask(CONTRAST)[1] == ["pale 1.61"]
