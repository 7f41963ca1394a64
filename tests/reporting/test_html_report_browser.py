"""The report in a real browser: it renders in light mode, dark mode and print, without console
messages, requests or values.

Skipped where there is no Chromium; `.ci/run` installs one where it can. Each start has its own
profile and a time limit, and leaves no process running.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from shutil import which

import polars as pl
import pytest
from PIL import Image

from sanitize.cli.generated_mails import generate_mails
from sanitize.pipeline.run import run_with_settings
from sanitize.plans.settings import Settings


def find_chromium() -> str | None:
    """The path of a Chromium that starts; an executable on the path may be a stub that asks to
    install a package."""
    for path in filter(
        None, map(which, ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
    ):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if (
                subprocess.run(
                    [path, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=60
                ).returncode
                == 0
            ):
                return path
    return None


CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no working Chromium; apt-get install chromium"
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the tests of a container run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--hide-scrollbars",
    "--enable-logging=stderr",
    "--v=0",
)
TIMEOUT_SECONDS = 80  # a start takes two seconds
DARK, LIGHT = "--blink-settings=preferredColorScheme=0", "--blink-settings=preferredColorScheme=1"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published folder whose column names contain markup."""
    folder = tmp_path_factory.mktemp("browsed")
    mails = pl.DataFrame(generate_mails(120, 9)).select("text")
    plan = folder / "<svg onload=alert(1)>&'.toml"
    plan.write_text(
        (resources.files("sanitize") / "plans" / "rmft.toml").read_text("utf-8"), "utf-8"
    )
    mails.with_columns(
        pl.lit(3).alias("<script>document.title='owned'</script>"),
        pl.lit(4).alias("\u202egnp.\"'><img src=x>"),
    ).write_parquet(folder / "in.parquet")
    run_with_settings(
        folder / "in.parquet", folder / "out", str(plan), settings=Settings(seed=1, workers=1)
    )
    return folder / "out"


def browse(
    page: Path, *flags: str, profile: Path, output_file: Path | None = None
) -> tuple[str, str]:
    """What Chromium writes to stdout and stderr when it opens a page; with `output_file`, it must
    also write that file.

    A browser that crashes or hangs is started again, up to twice; errors of the page are never
    ignored.
    """
    for _ in range(2):
        with contextlib.suppress(subprocess.TimeoutExpired, ChildProcessError):
            return _browse_once(page, *flags, profile=profile, output_file=output_file)
    return _browse_once(page, *flags, profile=profile, output_file=output_file)


def _browse_once(
    page: Path, *flags: str, profile: Path, output_file: Path | None
) -> tuple[str, str]:
    """One start of the browser; all its processes are killed afterwards."""
    assert CHROMIUM is not None
    process = subprocess.Popen(
        [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--crash-dumps-dir={profile}",
            *flags,
            page.as_uri(),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={
            **os.environ,
            "HOME": str(profile),
            "XDG_CONFIG_HOME": str(profile),
            "XDG_CACHE_HOME": str(profile),
        },
    )
    try:
        streams = process.communicate(timeout=TIMEOUT_SECONDS)
    finally:
        with contextlib.suppress(ProcessLookupError):  # the whole session has no other processes
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode or (output_file is not None and not output_file.is_file()):
        raise ChildProcessError(f"Chromium ended with {process.returncode}: {streams[1][-2000:]}")
    return streams


def console_messages(stderr: str) -> list[str]:
    """What a page wrote to the console: errors, warnings and violations of its content security
    policy."""
    return [line for line in stderr.splitlines() if "CONSOLE" in line]


def running_processes(profile: Path) -> list[str]:
    """Running processes with the profile in their command line."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(profile).encode() in (entry / "cmdline").read_bytes():
                pids.append(entry.name)
    return pids


@pytest.fixture()
def profile(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "profile"
    yield folder
    deadline = time.monotonic() + 10
    while (remaining := running_processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not remaining, "Chromium left processes behind"


def raw_values(out: Path) -> set[str]:
    """The values that were removed, and those that were kept: none may occur on a page."""
    files = Path(f"{out}.private/vault/values").glob("*.parquet")
    return {value for file in files for value in pl.read_parquet(file)["value"] if len(value) > 5}


@pytest.mark.slow
def test_page_renders_without_console_messages(out: Path, profile: Path) -> None:
    dom, stderr = browse(out / "report.html", "--dump-dom", profile=profile)
    assert console_messages(stderr) == []
    text = re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", "", dom, flags=re.DOTALL))
    assert (
        "no removed value is left; other values that were found stay by plan" in text
        and "full: 0 of " in text
    )
    assert re.search(r"\d+ of \d+ values of invented people", text)
    for heading in (
        "Outcomes by kind",
        "Where the values occur",
        "Rank and frequency",
        "Before and after",
        "Provenance",
        "Limits",
    ):
        assert heading in text
    # names are text: the browser created no element from them
    assert (
        "<script" not in dom
        and "<img" not in dom
        and "&lt;script&gt;document.title='owned'&lt;/script&gt;" in dom
    )
    assert "<svg onload" not in dom and "&lt;svg onload=alert(1)&gt;&amp;'" in dom
    assert (
        "<title>What sanitize did" in dom
        and dom.count("<polyline") >= 8
        and dom.count("<rect") >= 10
    )
    values = raw_values(out)
    page = (out / "report.html").read_text("utf-8")
    # a longer invented value may begin with one, such as 203.0.113.77 with 203.0.113.7
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(values)))})(?!\w)")
    assert len(values) > 200 and pattern.findall(dom) == pattern.findall(page) == []


def test_policy_violations_are_detected(out: Path, profile: Path, tmp_path: Path) -> None:
    """A script and an external image, added to the page, are blocked by its policy, and the test
    detects it."""
    bad = tmp_path / "bad.html"
    page = (out / "report.html").read_text("utf-8")
    bad.write_text(
        page.replace(
            "</body>",
            '<script>document.title="owned"</script><img src="http://192.0.2.1/x.png"></body>',
        ),
        "utf-8",
    )
    dom, stderr = browse(bad, "--dump-dom", profile=profile)
    messages = console_messages(stderr)
    assert len(messages) >= 2 and all("Content Security Policy" in line for line in messages)
    assert "<title>What sanitize did" in dom


def take_screenshot(page: Path, mode: str, profile: Path, path: Path) -> Image.Image:
    _, stderr = browse(
        page,
        mode,
        "--window-size=1200,1600",
        f"--screenshot={path}",
        profile=profile,
        output_file=path,
    )
    assert console_messages(stderr) == []
    return Image.open(path).convert("RGB")


@pytest.mark.slow
def test_light_and_dark(out: Path, profile: Path, tmp_path: Path) -> None:
    light, dark = (
        take_screenshot(out / "report.html", mode, profile, tmp_path / f"{no}.png")
        for no, mode in enumerate((LIGHT, DARK))
    )
    assert light.size == dark.size == (1200, 1600)
    assert light.getpixel((2, 2)) == (0xFB, 0xFA, 0xF7) and dark.getpixel((2, 2)) == (
        0x15,
        0x18,
        0x1B,
    )
    for picture, colours in (
        (light, {(0x0B, 0x6E, 0x6E), (0xD9, 0xA5, 0x66)}),
        (dark, {(0x3A, 0xA5, 0xA1), (0xD9, 0xA5, 0x66)}),
    ):
        drawn_colours = {
            colour for count, colour in picture.getcolors(1 << 24) or () if count > 500
        }
        assert colours <= drawn_colours  # the bars are drawn, in the colours of the mode
    # no text extends beyond the page on either side
    assert all(
        light.getpixel((x, y)) == (0xFB, 0xFA, 0xF7) for x in (0, 1198) for y in range(0, 1600, 7)
    )


def test_narrow_screen_needs_no_horizontal_scrolling(
    out: Path, profile: Path, tmp_path: Path
) -> None:
    narrow = tmp_path / "narrow.html"
    page = (out / "report.html").read_text("utf-8")
    measuring_script = (
        "<script>const bars = [...document.querySelectorAll('figure.bars')], svgs ="
        " [...document.querySelectorAll('figure.bars > svg')];const cut = bars.filter(bar =>"
        " bar.scrollWidth > bar.clientWidth).length;const shown = svgs.filter(svg =>"
        " svg.getBoundingClientRect().width).map(svg =>"
        " svg.getAttribute('class'));parent.postMessage(`${document.documentElement.scrollWidth}"
        " cut ${cut} ${shown}`, '*')</script></body>"
    )
    narrow.write_text(
        re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page).replace(
            "</body>", measuring_script
        ),
        "utf-8",
    )
    # a window of Chromium is at least 500 pixels wide, a frame may be as wide as a telephone
    frame = tmp_path / "frame.html"
    script = "<script>onmessage = event => document.title = 'wide ' + event.data</script>"
    frame.write_text(
        f'{script}<iframe src="narrow.html" width="400" height="900" style="border: 0"></iframe>',
        "utf-8",
    )
    dom, _ = browse(
        frame, "--dump-dom", "--window-size=500,1000", "--virtual-time-budget=5000", profile=profile
    )
    measured = re.search(r"<title>wide (\d+) cut (\d+) ([\w,]+)", dom)
    assert measured and int(measured[1]) <= 400
    # the bars are drawn to their end, in the form for narrow screens
    assert measured.groups()[1:] == ("0", "narrow,narrow")


@pytest.mark.slow
def test_print_layout(out: Path, profile: Path, tmp_path: Path) -> None:
    def print_page(page: Path) -> bytes:
        path = tmp_path / f"{page.stem}.pdf"
        _, stderr = browse(
            page,
            DARK,
            f"--print-to-pdf={path}",
            "--no-pdf-header-footer",
            profile=profile,
            output_file=path,
        )
        assert console_messages(stderr) == []
        return path.read_bytes()

    pdf = print_page(out / "report.html")
    assert pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF")
    pages = re.findall(rb"/Type\s*/Page\b", pdf)
    assert 3 <= len(pages) <= 12
    # collapsed details are printed too: without that rule the document is shorter
    collapsed = tmp_path / "folded.html"
    collapsed.write_text(
        (out / "report.html").read_text("utf-8").replace("details::details-content", ".none"),
        "utf-8",
    )
    assert len(re.findall(rb"/Type\s*/Page\b", print_page(collapsed))) < len(pages)
