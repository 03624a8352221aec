"""Templates print text that cannot forge a page, and they are part of the wheel."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from continuations.serve import pages
from continuations.serve.pages import environment
from continuations.serve.pages.environment import Shell
from tests.run_environment import ROOT

FOLDER = Path(str(pages.__file__)).parent
FILES = [*FOLDER.glob("templates/*"), *FOLDER.glob("assets/*")]
TEXTS = st.text(st.characters(codec=None, exclude_categories=()))


def message(**changes: Any) -> str:
    """Return a page with a title and a text."""
    context: dict[str, Any] = {"shell": None, "title": "Title", "text": "Text"}
    context |= {"facts": {}, "values": {}, "links": {}, **changes}
    return environment.render("message.html", **context)


@given(TEXTS)
def test_printed_text_is_escaped_and_has_no_invisible_characters(text: str) -> None:
    """The text also stands in an attribute, and beside real line ends."""
    page = message(
        title=text,
        text=text,
        facts={text: text},
        values={text: text},
        links={text: text},
    )

    plain = message()
    for mark in ("<p>", "<h1>", "<script", "<img", "<form", "<input"):
        assert page.count(mark) - plain.count(mark) in (0, 1)
        assert "<script" not in page
    assert all(char.isprintable() or char == "\n" for char in page)


def test_lines_keep_their_ends_and_escape_everything_else() -> None:
    page = message(values={"A": '{\n  "a": "<b>\u202e\r"\n}'})

    expected = "{\n  &#34;a&#34;: &#34;&lt;b&gt;\\u202e\\r&#34;\n}"
    assert f"<pre>{expected}</pre>" in page


@pytest.mark.parametrize("value", [None, True, 1.5, [], object()])
def test_template_prints_only_texts_and_whole_numbers(value: object) -> None:
    """A view with another value has a fault, which its first test finds."""
    with pytest.raises(TypeError, match="print a text"):
        message(title=value)


def test_missing_value_is_an_error() -> None:
    from jinja2 import UndefinedError  # noqa: PLC0415 - loaded by the page

    with pytest.raises(UndefinedError, match="'shell' is undefined"):
        environment.render("message.html", title="Title")


def test_templates_never_switch_the_escaping_off() -> None:
    ways = re.compile(r"\|\s*(safe|e|escape|forceescape|xmlattr|tojson)\b|autoescape")
    styles = re.compile(r"\sstyle=|\son[a-z]+=|javascript:")
    texts = {path.name: path.read_text() for path in FOLDER.glob("templates/*")}

    assert [] == [name for name, text in texts.items() if ways.search(text)]
    assert [] == [name for name, text in texts.items() if styles.search(text)]


def test_page_of_a_link_contains_its_style_and_loads_nothing() -> None:
    page = message()

    assert f"<style>{environment.style_text()}</style>" in page
    assert "<nav" not in page
    for word in ("<script", "src=", "<link", "http:", "https:", "url(", "@import"):
        assert word not in page


def test_page_of_the_console_has_its_navigation_below_the_mount_prefix() -> None:
    shell = Shell(
        root="/agents", person="k\u202eim", csrf="t", section="runs", open_waits="4"
    )

    page = message(shell=shell)

    address = re.escape(f"/agents{environment.asset_path('console.css')}")
    assert re.search(f'<link rel="stylesheet" href="{address}">', page)
    assert '<a href="/agents/runs" aria-current="page">Runs' in page
    assert 'aria-label="4 wait for you">4</span>' in page
    assert "k\\u202eim" in page
    assert "<style" not in page


def test_assets_have_addresses_with_their_hashes() -> None:
    path = environment.asset_path("console.css")

    assert re.fullmatch(r"/assets/[0-9a-f]{16}/console\.css", path)
    assert "text/css; charset=utf-8" == environment.media_type("console.css")
    assert b"--accent" in environment.read_asset("console.css")


@pytest.mark.parametrize(
    "name", ["", "../environment.py", "a/b.css", "none.css", "..\\x.css", "x.py"]
)
def test_no_other_file_is_an_asset(name: str) -> None:
    with pytest.raises(OSError, match=r"."):
        environment.read_asset(name)


def test_wheel_contains_the_templates_and_assets(tmp_path: Path) -> None:
    """A page can be rendered from the built wheel alone."""
    build = (
        "import sys\nfrom hatchling.build import build_wheel\nbuild_wheel(sys.argv[1])"
    )
    command = [sys.executable, "-c", build, str(tmp_path)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")

    prefix = "continuations/serve/pages"
    names = {f"{prefix}/{path.relative_to(FOLDER).as_posix()}" for path in FILES}
    with zipfile.ZipFile(wheel) as archive:
        assert names <= set(archive.namelist())
    code = (
        "import json, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from continuations.serve.pages import environment\n"
        "page = environment.render('message.html', shell=None, title='T', text='t',\n"
        "    facts={}, values={}, links={})\n"
        "print(json.dumps([environment.__file__, page]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(wheel)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    origin, page = json.loads(done.stdout)
    assert origin.startswith(str(wheel))
    assert page == message(title="T", text="t")


def test_environment_loads_jinja_with_the_first_page_only() -> None:
    code = (
        "import sys\n"
        "from continuations.serve.pages import environment\n"
        "environment.style_text()\n"
        "print('jinja2' in sys.modules)"
    )
    command = [sys.executable, "-c", code]

    done = subprocess.run(command, check=True, capture_output=True, text=True)

    assert "False" == done.stdout.strip()
