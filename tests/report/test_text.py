"""Numbers and sentences for people, and names that come from files: printed as they are, able to do nothing."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import matplotlib.text
import pytest

from ilbrl.cli import main
from ilbrl.report import summarise, write_page
from ilbrl.report.formats import comma_separated, latex, machine_readable, markdown
from ilbrl.report.pictures import paper
from ilbrl.report.pictures.runs import of_run
from ilbrl.report.text import (
    command,
    file_name,
    listed,
    number,
    on_paper,
    one_line,
    plain,
    plus_minus,
    script,
    sentence,
    several,
    short,
    tex,
)
from ilbrl.report.text import markdown as in_markdown

HTML = '</script><script>alert(1)</script><a href="https://evil.example">bc</a><img src=x onerror=alert(2)>'
MARKUP = "[l](http://evil.example) | `c` **b** # h\nhttps://evil.example \\textbf{b} $x^2$ & 5 % ~ \x1b[31m_u\u202e"
PATH = "../../../../evil"
EVIL = {"html": HTML, "markup": MARKUP, "path": PATH}


def test_numbers_in_words():
    shown = [number(v) for v in (None, float("nan"), 1234.56, 2.053, -0.0123, 0.0)]
    assert shown == ["–", "–", "1,234.6", "2.05", "-0.012", "0.0"]
    assert [plus_minus(2.053, h) for h in (0.0131, None, float("nan"))] == ["2.05 ± 0.01", "2.05", "2.05"]
    assert [several(n, "policy", "policies") for n in (1, 2000)] == ["1 policy", "2,000 policies"]
    assert [short(v) for v in (0.00031234, [64, 64], "relu", None)] == ["0.000312", "[64, 64]", "relu", "–"]
    assert plain({"lr": {"kind": "uniform", "values": [0.2, 0.5]}, "n": 3}) == "lr uniform(0.2, 0.5); n 3"


def test_names_are_listed():
    assert [listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
    assert listed(["ILBRL", "ILBRL, unweighted", "BC"]) == "ILBRL; ILBRL, unweighted; and BC"


def test_sentences_have_a_capital_and_a_full_stop():
    assert [sentence(text) for text in ("few runs", "Done.", "")] == ["Few runs.", "Done.", ""]


def test_commands_can_be_copied():
    assert command("ilbrl", "tune", "--reveal", "runs/my run; rm -r x") == "ilbrl tune --reveal 'runs/my run; rm -r x'"


@pytest.mark.parametrize(
    ("escape", "name", "expected"),
    [
        (one_line, "a\nb\x1b[31mc\u202ed", "a b\ufffd[31mc\ufffdd"),
        (in_markdown, "a|b *c* <i>", r"a\|b \*c\* \<i\>"),
        (in_markdown, "actor_lr of _x_", r"actor_lr of \_x\_"),
        (in_markdown, "$x$", r"\$x\$"),
        (in_markdown, "see https://e.example", r"see https\://e.example"),
        (tex, "50 % of a_b & {c} ± 歩", r"50 \% of a\_b \& \{c\} $\pm$ ?"),
        (tex, r"~^\<", r"\textasciitilde{}\textasciicircum{}\textbackslash{}\textless{}"),
        (tex, "[2cm] *", "{[}2cm{]} {*}"),
        (on_paper, "$x$", r"\$x\$"),
        (on_paper, "_hidden", " _hidden"),
        (script, {"a": "</script>\u2028"}, '{"a":"\\u003c/script>\\u2028"}'),
        (file_name, "training-actor_loss", "training-actor_loss"),
    ],
)  # fmt: skip
def test_escapes(escape, name, expected):
    assert escape(name) == expected


@pytest.mark.parametrize(
    "name", [*EVIL.values(), "..", ".", "", "/etc/passwd", "a" * 5000, "nul\0", ".hidden", "\ud800"]
)
def test_file_names_stay_in_their_folder(name, tmp_path):
    found = file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", found)
    assert len(found) < 100
    (tmp_path / f"{found}.png").write_text("")
    assert [path.name for path in tmp_path.iterdir()] == [f"{found}.png"]


def test_two_names_never_share_a_file():
    assert len({file_name(name) for name in ("a/b", "a b", "a-b", "a\\b", "../a/b")}) == 5


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        assert all((value or "").startswith(("#", "data:")) for name, value in attrs if name in ("src", "href"))


@pytest.mark.parametrize("kind", EVIL)
def test_the_page_prints_hostile_names_and_nothing_else(kind, hostile, played, tmp_path):
    tags = {}
    for name, folder in (("good", played), ("evil", hostile(EVIL[kind]))):
        found = Tags()
        found.feed(write_page([folder], tmp_path / f"{name}.html").read_text())
        tags[name] = {tag: found.found.count(tag) for tag in ("script", "a", "img", "b", "i")}
        assert not re.search("[\x1b\u202e]", (tmp_path / f"{name}.html").read_text())
    assert tags["evil"] == tags["good"]


def test_figures_are_written_into_their_folder_alone(hostile, tmp_path, capsys):
    folder, figures = hostile(PATH + MARKUP), tmp_path / "deep" / "er" / "figures"
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    main(["report", str(folder), "--out", str(tmp_path / "page.html"), "--figures", str(figures)])
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before - {tmp_path / "page.html"}
    assert len(written) > 20
    assert {path.parent for path in written} == {figures}
    assert "\x1b" not in capsys.readouterr().out


def test_dollars_on_paper_are_no_mathematics(hostile):
    for picture in of_run(summarise([hostile("$\\frac{1}$ _x")]).runs[0]).values():
        texts = paper.draw(picture).findobj(matplotlib.text.Text)
        assert not any(text.get_text().replace(r"\$", "").count("$") for text in texts)


@pytest.mark.parametrize("kind", EVIL)
def test_markdown_has_the_mark_up_of_the_report_and_no_other(kind, hostile, played):
    def bare(folder):  # what is left of the mark-up when escaped letters are gone
        text = re.sub(r"\\.", "", markdown(summarise([folder])))
        return re.findall(r"[<>`]|\[[^\]]*\]\(|https?:/|^#+ |^\|(?:[^|]*\|)+$", text, re.MULTILINE)

    good, evil = bare(played), bare(hostile(EVIL[kind]))
    assert [len(each.split("|")) for each in evil] == [len(each.split("|")) for each in good]


@pytest.mark.parametrize("kind", EVIL)
def test_latex_keeps_its_rows_and_cells(kind, hostile):
    table = latex(summarise([hostile(EVIL[kind])]))
    rows = [line for line in table.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {1}
    assert re.sub(r"\\textbf\{", "", table).count(r"\text") == table.count(r"\textbackslash") + sum(
        table.count(rf"\text{word}") for word in ("less", "greater", "bar", "asciitilde", "asciicircum")
    )


@pytest.mark.parametrize("kind", EVIL)
def test_latex_with_hostile_names_compiles(kind, hostile, tmp_path):
    program = shutil.which("pdflatex")
    if program is None:
        pytest.skip("no pdflatex here: only the structure of the table is checked")
    table = latex(summarise([hostile(EVIL[kind])]))
    page = rf"\documentclass{{article}}\usepackage{{booktabs}}\begin{{document}}{table}\end{{document}}"
    (tmp_path / "page.tex").write_text(page, encoding="utf-8")
    words = [program, "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]


@pytest.mark.parametrize("kind", EVIL)
def test_machines_read_hostile_names_back(kind, hostile):
    summary = summarise([hostile(EVIL[kind])])
    assert json.loads(machine_readable(summary))["runs"][0]["run"] == EVIL[kind]
    assert EVIL[kind].replace('"', '""') in comma_separated(summary)
