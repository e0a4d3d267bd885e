"""One nasty string goes through every writer, and stays text: in a browser, a spreadsheet, LaTeX, a terminal.

The reader is the real one where it is there: Chromium, LaTeX, openpyxl, parsers of Markdown and of HTML.
"""

import ast
import csv
import html
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from html.parser import HTMLParser
from types import SimpleNamespace

import openpyxl
import pandas as pd
import pytest
import show_results
import write_report
import write_reproduction
import write_verdict
from markdown_it import MarkdownIt
from support import ROOT, make_dataset, run_python

from gnorm import layout, tables
from gnorm.data import prepare
from gnorm.errors import UserError, printable
from gnorm.pages import bench, cards, document, gpu, kept, verdict, workbooks
from gnorm.pages.reports import data_escaped
from gnorm.published.evidence import Evidence
from gnorm.shown import in_latex, one_line
from gnorm.statistics.columns import COLUMNS, read_csv, write_csv

# A script that leaves a mark on the page it runs in, and on the one that shows that page.
SCRIPT = "for (const w of [self, top]) w.document.documentElement.setAttribute('data-ran', 1)"
# As a title: any line of text that can be printed.
TITLE = (
    f"=HYPERLINK('http://e.x')</script><script>{SCRIPT}</script><img src=x onerror=\"{SCRIPT}\"> '\"&amp; |a| `b` *c* "
    r"_d_ ~~e~~ [f](http://e.x) ![g](http://e.x/g.png) www.e.x <!-- \input{/etc/passwd} \write18{id} $\frac{h$ %i #j "
    r"^^5c {{ 7*7 }} {% k %} -- [5cm] \\"
)
# As a label, a row's text or what a model writes: also what no title may hold.
TEXT = f"\t{TITLE}\n\n# l\n| m |\r\n\x1b[31m\x07\u202en\u2028\n---\n<script>{SCRIPT}</script>"


class Page(HTMLParser):
    """Scripts of a page with their ids, the names of its other elements, and its text."""

    def __init__(self, page: str):
        super().__init__(convert_charrefs=True)
        self.scripts, self.tags, self.text, self.inside = [], [], "", None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.inside = tag
        if tag == "script":
            self.scripts.append([dict(attributes).get("id"), ""])
        else:
            self.tags.append(tag)

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1][1] += data
        else:
            self.text += data


def only(page: str, *tags: str) -> Page:
    """The page, which has no elements but these."""
    seen = Page(page)
    assert not seen.scripts and set(seen.tags) <= set(tags), (seen.scripts, set(seen.tags) - set(tags))
    return seen


def cells(page: str) -> list[str]:
    """The text of each cell of a page's tables."""
    return [html.unescape(cell) for cell in re.findall(r"<t[hd](?: [^>]*)?>(.*?)</t[hd]>", page, re.S)]


IN_TABLES = ("meta", "title", "style", "p", "code", "table", "tr", "th", "td")
IN_DOCUMENTS = ("html", "head", "body", "div", "h1", "h2", "h3", "ul", "li", "svg", "text", "line", "circle")
IN_MARKDOWN = ("p", "h1", "h2", "ul", "li", "pre", "code", "strong", "table", "thead", "tbody", "tr", "th", "td")


def rendered(markdown: str) -> str:
    return MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown)


@pytest.fixture(scope="module")
def in_chromium(tmp_path_factory):
    """What Chromium makes of a page: the document after its scripts have run."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        assert "CI" not in os.environ, "install chromium"
        pytest.skip("chromium is not installed")
    folder = tmp_path_factory.mktemp("chromium")
    quiet = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-sync"
    command = [program, *quiet.split(), "--disable-component-update", f"--user-data-dir={folder}", "--dump-dom"]

    def show(page: str) -> str:
        (folder / "page.html").write_text(page, encoding="utf-8")
        made = subprocess.run([*command, (folder / "page.html").as_uri()], capture_output=True, text=True, timeout=120)
        assert made.returncode == 0 and "</html>" in made.stdout, made.stderr[-2000:]
        return made.stdout

    return show


def ran(document: str) -> bool:
    return "data-ran=" in re.search("<html[^>]*>", document)[0]


def table_of(title: str) -> pd.DataFrame:
    return pd.DataFrame({"model": [title, "plain"], "area": [0.25, -0.5], title: ["0.1 ± 0.2", "-"]})


@pytest.fixture
def made(tmp_path):
    """A table in its four forms, the title in a cell and at the head of a column, with a caption of this package."""
    files = {kind: tmp_path / f"areas.{kind}" for kind in ("csv", "markdown", "latex", "page")}
    tables.write(table_of(TITLE), {}, "Areas of `a` & b.\n\nMore.", **files)
    return SimpleNamespace(**files)


@pytest.mark.stranger(
    "a model's title with scripts, markup, links, a formula and LaTeX's commands, in the tables of a suite",
    "all of it is text: in pages, Markdown, CSV files and the workbook",
)
def test_a_title_is_text_in_every_form_of_a_table(made, tmp_path):
    written = ["model", "area", TITLE, TITLE, "0.250", "0.1 ± 0.2", "plain", "-0.500", "-"]
    page = made.page.read_text()
    only(page, *IN_TABLES)
    assert cells(page) == written and "Areas of <code>a</code> &amp; b." in page
    markdown = rendered(made.markdown.read_text())
    only(markdown, *IN_MARKDOWN)
    assert cells(markdown) == written
    assert "://" not in made.markdown.read_text() and "www." not in made.markdown.read_text()  # links by themselves
    assert read_csv(made.csv).equals(table_of(TITLE))
    workbooks.write(tmp_path / "all.xlsx", {"areas": read_csv(made.csv)})
    stored = [cell for row in openpyxl.load_workbook(tmp_path / "all.xlsx")["areas"].iter_rows() for cell in row]
    assert [cell.value for cell in stored] == ["model", "area", TITLE, TITLE, 0.25, "0.1 ± 0.2", "plain", -0.5, "-"]
    assert "".join(cell.data_type for cell in stored) == "sss" + "sns" + "sns"


@pytest.mark.stranger(
    "texts that begin like formulas (`=`, `+`, `-`, `@`), or do so after a tab, `;` or the end of a line",
    "text in workbooks; a quote stands before them in CSV files, which the workflow takes away when it reads them",
)
def test_no_cell_is_a_formula(tmp_path):
    texts = "=1+1|+cmd,' /c calc'!A0|-2+3+A1|@SUM(A1)| =1|a;=1|'=1|''-a|\uff1d1|#N/A|-1.5e-3|+0.25|-|- a|1;-2|plain"
    texts = [*texts.split("|"), "\t=1", "\r=1", "a\rb", "a\n=1", "a;\r\n'=1", TEXT]
    table = pd.DataFrame({"text": texts, "=head": texts, "number": [0.1 + i for i in range(len(texts))]})
    write_csv(table, tmp_path / "table.csv")
    with open(tmp_path / "table.csv", newline="", encoding="utf-8") as file:
        written = [cell for row in csv.reader(file) for cell in row]
    starts = {part for cell in written for part in re.split(r"[;\t\r\n]", cell)}  # of what it may take for cells
    assert {part for part in starts if re.match(r"\s*[=+\-@\uff1d]", part)} == {"-1.5e-3", "+0.25", "-", "-2"}
    assert read_csv(tmp_path / "table.csv").equals(table)
    workbooks.write(tmp_path / "all.xlsx", {"one": table})
    first, *rows = openpyxl.load_workbook(tmp_path / "all.xlsx")["one"].iter_rows()
    assert [cell.value for cell in first] == ["text", "=head", "number"]
    for text, row in zip(texts, rows, strict=True):
        assert [cell.data_type for cell in row] == ["s", "s", "n"]
        assert row[0].value.replace("\r", "") == printable(text).replace("\r", "")
        assert all(bool(cell.quotePrefix) == (text[0] in "=+-@") for cell in row[:2])  # where it is edited too
    assert b"<f>" not in zipfile.ZipFile(tmp_path / "all.xlsx").read("xl/worksheets/sheet1.xml")


def test_plain_tables_are_written_as_ever(tmp_path):
    table = pd.DataFrame({"model": ["BERT", "a-b"], "score": [-1e-300, 0.1], "head": pd.array([1, None], "Int64")})
    write_csv(table, tmp_path / "table.csv")
    assert (tmp_path / "table.csv").read_text() == table.to_csv(index=False)


LATEX_DEFINES = {"begin", "end", "caption", "label", "toprule", "midrule", "bottomrule", "\\"}
LATEX_SHOWS = {"textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar", "char"}
# Without packages. Like those of booktabs, rules between rows take an argument in brackets.
DOCUMENT = r"""\documentclass{article}\usepackage[T1]{fontenc}\batchmode
\def\toprule{\noalign{\ifnum0=`}\fi\drawn}\newcommand\drawn[1][]{\ifnum0=`{\fi}\hline}
\let\midrule\toprule\let\bottomrule\toprule
\begin{document}%s\end{document}"""


@pytest.mark.stranger(
    r"`\input{...}`, `\write18{...}`, `$`, `%`, `#`, `^^5c` and brackets in titles, in tables for LaTeX",
    "LaTeX prints the letters; no command, comment or argument comes of them",
)
def test_a_title_is_text_in_latex(tmp_path):
    files = {kind: tmp_path / f"areas.{kind}" for kind in ("csv", "markdown", "latex", "page")}
    tables.write(table_of(f"[5cm]* {TEXT}"), {}, "Of `a` & 50% of b.\n\n[More].", **files)
    text = files["latex"].read_text()
    assert set(re.findall(r"\\([A-Za-z]+|\\)", text)) <= LATEX_DEFINES | LATEX_SHOWS
    bare = re.sub(r"\\([%_$&#{}]|\\)", "", text)  # without letters that are escaped, and without ends of rows
    assert not re.search(r"[$%#~^_|<>\x00-\x08\x0b-\x1f]", bare) and bare.count("&") == 3 * 2
    assert "\n\n" not in text.strip()  # nothing ends a paragraph inside an argument


@pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")
def test_latex_opens_and_runs_nothing(tmp_path):
    """With the commands of a shell allowed, so that a command that slipped through would leave its mark."""
    (tmp_path / "secret.tex").write_text("private")
    for what, commands, bad in (
        ("text", rf"[5cm]* {TEXT} \input{{secret}} \immediate\write18{{touch ran}} \openout5=ran", False),
        ("commands", "", True),  # or the rest would show nothing
    ):
        folder = tmp_path / what
        folder.mkdir()
        shutil.copy(tmp_path / "secret.tex", folder)
        files = {kind: folder / f"areas.{kind}" for kind in ("csv", "markdown", "latex", "page")}
        tables.write(table_of(commands), {}, "Of `a` & 50% of b.\n\n[More].", **files)
        text = files["latex"].read_text() + (r"\input{secret}\immediate\write18{touch ran}" if bad else "")
        (folder / "all.tex").write_text(DOCUMENT % text, encoding="utf-8")
        made = subprocess.run(["pdflatex", "-shell-escape", "all.tex"], cwd=folder, capture_output=True)
        log = (folder / "all.log").read_text(errors="replace")
        assert made.returncode == 0 and "\n!" not in log, log[-3000:]
        opened = [name for name in ("secret.tex", "/etc/passwd") if name in log.replace("\n", "")]
        assert bool(opened) == (folder / "ran").exists() == bad, (what, opened)


def test_latex_prints_every_letter_as_it_is():
    """By what the commands stand for; letters beyond ASCII are LaTeX's own affair."""
    shown = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^", r"\char34{}": '"'}
    shown |= {r"\textless{}": "<", r"\textgreater{}": ">", r"\textbar{}": "|"}
    back = re.sub(
        r"\\[a-z]+\d*{}|\\([%_$&#{}])|{([^}])}|{(])}",
        lambda found: shown.get(found[0]) or next(filter(None, found.groups())),
        in_latex(TITLE),
    )
    assert back == TITLE


MODELS = {"MINE": TITLE}


def evidence() -> Evidence:
    steps = range(5)
    rows = [{"run": 0, "step": i, "heads_pruned": i, "heads_left": 4 - i, "accuracy": 0.5 - i / 10} for i in steps]
    tidy = pd.DataFrame(rows, columns=COLUMNS).assign(model="MINE", strategy="greedy_gnorm", unit="heads")
    lists = {"train": [], "calibration": [1], "evaluation": [0], "majority": 0.9, "seen": 0}
    return Evidence(tidy=tidy.assign(fraction_pruned=tidy["heads_pruned"] / 4), tolerance=1.0, splits={"MINE": lists})


@pytest.mark.stranger(
    "the same title in the verdict, its warnings, cards of models, and tables of documents", "all of it is text"
)
def test_a_title_is_text_in_pages(tmp_path, monkeypatch):
    (tmp_path / "parameters.csv").write_text("model,module,before,after\n")
    files = {kind: tmp_path / f"verdict.{kind}" for kind in ("csv", "markdown", "page")}
    parameters = tmp_path / "parameters.csv"
    outputs = SimpleNamespace(**files)
    given = {"run": evidence(), "published": None, "parameters": parameters, "level": 0.95}
    write_verdict.main(suite="s", models=MODELS, outputs=outputs, **given)
    page, markdown = files["page"].read_text(), rendered(files["markdown"].read_text())
    for shown in (only(page, *IN_TABLES), only(markdown, *IN_MARKDOWN)):
        assert f"{TITLE} is right on 50.0% of its evaluation rows" in shown.text
        assert shown.text.count(TITLE) > 10
    assert cells(page).count(TITLE) == sum(cell == TITLE for cell in read_csv(files["csv"])["model"]) > 10
    assert "<code>classes:</code>" in page and "<code>static_gnorm</code>" in page  # words of this package

    facts = {"suite": "s", "runs": 1, "granularity": "sentence", "strategies": {}}
    facts["intervals"] = {"level": 0.95, "resamples": 1000, "seed": 1}
    facts["models"] = [{"name": "MINE", "model": TITLE, "rows from": f"file: {TEXT}"}]
    (tmp_path / "signature.json").write_text(
        '{"belongs_to": {"transformers": "5", "torch": "2", "device": "cpu", "threads": 1}}'
    )
    evidence().tidy.to_csv(tmp_path / "tidy.csv")
    given = {"verdict": files["csv"], "tidy": tmp_path / "tidy.csv", "signatures": [tmp_path / "signature.json"]}
    report = SimpleNamespace(page=tmp_path / "report.html", markdown=tmp_path / "report.md")
    write_reproduction.main(**given, figures=[], benchmarks=tmp_path, facts=facts, outputs=report)
    for shown in (
        only(report.page.read_text(), *IN_TABLES, *IN_DOCUMENTS),
        only(rendered(report.markdown.read_text()), *IN_MARKDOWN, "h3"),
    ):
        assert shown.text.count(TITLE) > 10

    point = cards.Point(0.9, 9, {"F1": 0.8}, 100, 0.1, {1: 2.0})
    facts = {"task": "classification", "queries": 1, "evaluated": 10, "seen": 0, "classes": [TEXT, "no"], "repeats": 3}
    facts |= {"processor": TEXT, "threads": 1, "tokens": 9, "tokenizer": "AutoTokenizer", "transformers": "5"}
    facts |= {"supported": ["5"], "stored": "float32"}
    solution = {"heads": 4, "heads_pruned": 1, "strategy": "ae", "chosen": "stop point", "pruned_slots": [[0, 1]]}
    card = cards.write(TITLE, "mine", solution, [[0], [1]], (point, point), facts)
    _, head, body = card.split("---\n", 2)
    assert head == "library_name: transformers\npipeline_tag: text-classification\n"
    shown = only(rendered(body), *IN_MARKDOWN)
    assert f"{TITLE}, 1 of 4 attention heads pruned" in shown.text
    assert shown.text.count(one_line(TEXT).strip()) == 2

    areas = {f"at {n}%": [0.5] for n in (25, 50, 75)} | {f"at {n}% ±": [0.1] for n in (25, 50, 75)}
    areas |= {"model": [TITLE], "strategy": ["ae"], "area": [0.5], "area ±": [0.1]}
    before = {"model": [TITLE], "majority class (%)": [1.0], "bag of words (%)": [2.0], "model (%)": [3.0]}
    after = {"model": [TITLE], "pruned": [1], "heads": [4], "accuracy after (%)": [5.0]}
    after |= {"size before (MB)": [2.0], "size after (MB)": [1.0]}
    wide = {"strategy": ["greedy_gnorm", "ae"], TITLE: ["0.1 ± 0.2", "0.3 ± 0.1"]}
    compared = {"model": [TITLE], "criterion": ["gnorm"], "area": [0.5]}
    claimed = {"part": ["Claims"], "status": ["holds"], "item": [TEXT], "model": [TITLE], "this run": ["yes"]}
    lines = [("greedy step", "engine"), ("memory", "peak of a step"), ("the paper's runs", "greedy run here")]
    lines += [
        ("trajectory", "without / with"),
        ("exactness", "float64, here"),
        ("exactness", "float32 error, here / naive"),
    ]
    timed = pd.DataFrame(lines, columns=["section", "what"]).assign(shape=TITLE, value=1.0, low=0.5, high=2.0, unit="s")
    timed["reached"] = True
    asked = {"headline": [table_of(TITLE)], "areas": [areas], "before": [before, after]}
    asked |= {"ahead": [wide], "criteria": [compared], "claims": [claimed]}
    asked |= {name: [timed] for name in ("speed", "memory", "hours", "found")}
    for name, frames in asked.items():
        shown = rendered(kept.TABLES[name][1](*map(pd.DataFrame, frames)))
        seen = only(shown, *IN_MARKDOWN)
        assert TITLE in cells(shown) or (name in ("ahead", "found") and one_line(TITLE) in seen.text), name
    assert set(asked) | {"page"} == set(kept.TABLES)  # the page is what `bench.markdown` below makes

    measured = {"section": ["step"], "shape": ["BERT"], "what": [TEXT], "value": [1.0], "reached": [True]}
    shown = only(rendered(bench.markdown(pd.DataFrame(measured), {"step": TEXT}, 3, 4)), *IN_MARKDOWN)
    assert shown.text.count(one_line(TEXT).strip()) == 2
    shown = only(rendered(gpu.markdown([gpu.Line("card", TEXT, False)], False)), *IN_MARKDOWN)
    assert one_line(TEXT).strip() in shown.text


@pytest.mark.stranger(
    "texts and labels of rows with scripts, markup, line breaks and control characters", "text in the dataset's summary"
)
def test_rows_are_text_in_the_summary(tmp_path):
    labels = [TEXT, "no"]
    pd.DataFrame({"t": [TEXT, "a | b"] * 6, "y": labels * 6}).to_parquet(tmp_path / "rows.parquet")
    entry = {"source": "file", "path": str(tmp_path / "rows.parquet"), "text": "t", "pair": None, "label": "y"}
    entry |= {"classes": labels, "unscored": [], "order": "as_is"}
    counts = {"train": 4, "calibration": 2, "entropy": "same", "evaluation": 4, "disjoint": True}
    made = make_dataset(entry, {"family": "bert", "vocabulary": 100, "length": 64}, counts, tmp_path)
    page, markdown = made["page"].read_text(), made["summary"].read_text()
    shown = only(page, "meta", "title", "pre")
    assert f"| {one_line(TEXT)} | 0 | 6 | 2 |" in shown.text and one_line(TEXT[:200]) in shown.text
    only(rendered(markdown), *IN_MARKDOWN)
    seen = cells(rendered(markdown))
    assert one_line(TEXT).strip() in seen and seen.count("a | b") == 4
    for text in (page, markdown):
        assert text == printable(text)


# A workflow as short as can be with a report whose jobs have the title among their parameters, as those of tables do.
WORKFLOW = """
rule all:
    input:
        "areas.html",


rule table:
    input:
        "areas.page",
    output:
        report("areas.html", caption="caption.rst", category="Tables", labels={"table": "areas"}),
    params:
        title=lambda wildcards: config["title"],
        caption="Areas, ``by`` strategy.",
    shell:
        "cp {input} {output}"
"""
DATA = "workflow-desc results categories rulegraph runtimes timeline rules packages metadata logo".split()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report as Snakemake writes it, and as this workflow does."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "Snakefile").write_text(WORKFLOW)
    (folder / "areas.page").write_text(tables.html(table_of(TITLE), [False] * 3, "Areas", "areas"))
    (folder / "config.json").write_text(json.dumps({"title": TITLE}))
    shutil.copy(ROOT / "report/described.rst", folder / "caption.rst")
    program = [sys.executable, "-P", "-m", "snakemake", "--cores", "1", "--quiet", "--configfile", "config.json"]
    made = subprocess.run(program, cwd=folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr[-2000:]
    raw = []

    def escaped(page):
        raw.append(page)
        return data_escaped(page)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(write_report, "data_escaped", escaped)
        write_report.main(
            config={"title": TITLE},
            snakefile="Snakefile",
            targets=["all"],
            config_file="config.yaml",
            report_file="report.html",
        )
    return SimpleNamespace(raw=raw[0], safe=(folder / "report.html").read_text())


# How a page tells its reader what its scripts have found in the data.
TELL = """<script>
const found = Object.values(results)[0];
document.documentElement.setAttribute("data-found", JSON.stringify([found.job_properties.params, found.caption]));
</script></body>"""


@pytest.mark.stranger(
    "the title `</script><script>...` in `report.html`, through parameters of jobs",
    "the report has the scripts of Snakemake's template and no other, with the title in their data",
)
def test_no_script_comes_into_the_report(report):
    safe, raw = Page(report.safe), Page(report.raw)
    assert len(raw.scripts) > len(safe.scripts)  # or this would show nothing
    assert [name for name, _ in safe.scripts if name] == DATA
    assert not [text for name, text in safe.scripts if not name and "data-ran" in text]
    assert not {"img", "iframe", "a"} & set(safe.tags)
    results = json.loads(dict(safe.scripts)["results"].partition(" = ")[2].strip().rstrip(";"))
    assert TITLE.replace('"', r"\"") in results["areas.html"]["job_properties"]["params"]


def test_the_report_is_safe_in_chromium(report, in_chromium):
    assert ran(in_chromium(report.raw))  # what was to be mended, or this would show nothing
    page, _, end = report.safe.rpartition("</body>")
    shown = in_chromium(page + TELL + end)
    assert not ran(shown)
    params, caption = json.loads(html.unescape(re.search('data-found="([^"]*)"', shown)[1]))
    assert TITLE.replace('"', r"\"") in params and "Areas, <tt" in caption
    assert "Statistics" in Page(shown).text  # the page has drawn its menu


def test_pages_are_safe_in_chromium(made, in_chromium):
    assert ran(in_chromium(f"<title>x</title>{TITLE}"))  # or this would show nothing
    for page in (made.page.read_text(), rendered(made.markdown.read_text()), made.markdown.read_text()):
        shown = in_chromium(page)
        assert not ran(shown) and not {"img", "a"} & set(Page(shown).tags)
    assert TITLE in Page(in_chromium(made.page.read_text())).text


@pytest.mark.parametrize(
    "page",
    [
        '<script id="results">\n results = {"a": "</script>"};\n</script>',
        '<script id="results">var results = {"a": 1};</script><script id="rules">const rules = {"a": 1};</script>',
        '<script>var results = {"a": 1};</script>',
    ],
)
def test_another_form_of_the_report_is_noticed(page):
    with pytest.raises(RuntimeError, match="writes another report"):
        data_escaped(page)


ESCAPES = "\x1b]0;title\x07\x1b[2J\x9b31m\x08\u202e\r"
LOGGING = """
import sys
from gnorm.errors import UserError
from gnorm.logs import log, start
from gnorm.planning import advice
start(sys.argv[1], "job")
log.info("a label: %s", sys.argv[2])
advice.say_last([f"WHAT WENT WRONG: {sys.argv[2]}"])
raise UserError(f"no class is called {sys.argv[2]}\\nnor else")
"""


@pytest.mark.stranger(
    "control characters that clear a terminal or turn text around: in labels, messages, and tables made elsewhere",
    "written out, as `\\x1b`: in logs, on the terminal, and by `show_results`",
)
def test_nothing_controls_a_terminal(tmp_path, monkeypatch, capsys):
    made = run_python(LOGGING, str(tmp_path / "log"), f"<{ESCAPES}>")
    said = "<" + r"\x1b]0;title\x07\x1b[2J\x9b31m\x08\u202e\r" + ">"
    assert made.stderr.count(said) == 3 and f"[job] no class is called {said} nor else\n" in made.stderr
    for text in (made.stderr, (tmp_path / "log").read_text()):
        assert text == printable(text) and said in text
    with pytest.raises(UserError) as caught:
        raise UserError(f"one{ESCAPES}\n  two")
    assert str(caught.value) == rf"one{printable(ESCAPES)} two"

    monkeypatch.chdir(tmp_path)
    table = layout.fill(layout.TABLE, suite="theirs", table="headline", kind="md")
    (tmp_path / table).parent.mkdir(parents=True)
    (tmp_path / table).write_text(f"| model |\n|---|\n| {ESCAPES[:-1]} |\n")
    show_results.main(["theirs"])
    shown = capsys.readouterr().out
    assert shown == printable(shown) and printable(ESCAPES[:-1]) in shown


# In a folder with settings of matplotlib that run LaTeX, and look for a module to draw with.
DRAW = """
import sys
import pandas as pd
from gnorm.figures import pruningresults, style
from gnorm.statistics.results import Results
title = sys.argv[1]
results = Results(".", {"MINE": title}, {"greedy_gnorm": {"drawn": False}, "$x_y$": {"drawn": False}}, ("tidy",))
figure = pruningresults.draw(results, {"columns": 2, "tasks": {}})
assert figure.axes[0].get_title() == title
style.save(figure, "a.png", "a.pdf", 50)
"""


@pytest.mark.stranger(
    "a title with `$` and LaTeX's commands in figures, and a `matplotlibrc` of the working directory", "drawn as text"
)
def test_a_title_is_text_in_figures(tmp_path):
    tidy = evidence().tidy
    write_csv(pd.concat([tidy, tidy.assign(strategy="$x_y$")]), layout.within(tmp_path, layout.TIDY))
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nbackend: module://nothing\nfigure.dpi: 7\n")
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts"), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", DRAW, TITLE]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert made.returncode == 0, made.stderr[-2000:]
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG" and (tmp_path / "a.pdf").stat().st_size > 5000


# Writers of text that people read: where they are, and why those that do not ask `gnorm.shown` or `write_csv` need not.
WRITERS = {
    r"\.to_csv\(": {
        "gnorm/statistics/columns.py",  # write_csv
        "gnorm/pruning/masks.py",  # numbers
        "gnorm/pruning/parts.py",  # numbers, and names of criteria; cells are copied as they were written
        "merge_criteria.py",  # likewise
        *("count_parameters.py", "measure_growth.py", "measure_shape.py", "measure_suite.py"),  # words of this package
    },
    r"\.to_excel\(": {"gnorm/pages/workbooks.py"},
    r"\.to_latex\(": {"gnorm/tables/__init__.py"},
    r"\.to_html\(": set(),
    r"\.to_markdown\(": {"gnorm/shown.py", "gnorm/planning/capacity.py"},  # the last has names of models and rules
    r'f"\| |\["\| |"# ': {
        *(f"gnorm/pages/{name}.py" for name in ("cards", "gpu", "kept", "bench")),
        *("gnorm/data/prepare.py", "gnorm/pages/verdict.py"),
        "gnorm/layout.py",  # words of this package
    },
    r"<!doctype|<t[dr]>|<pre>": {"gnorm/tables/__init__.py", "gnorm/data/prepare.py", "gnorm/pages/document.py"},
    r"\bprint\(": {
        *("show_results.py", "gnorm/planning/advice.py"),
        # What this machine and this repository say, names of models and rules.
        *("check_gpu.py", "docs_numbers.py", "estimate_capacity.py", "gnorm/layout.py"),
    },
}


@pytest.mark.parametrize("pattern", WRITERS)
def test_there_is_no_other_writer(pattern):
    """A new one shows what strangers wrote by `gnorm.shown`, comes into this list, and gets the nasty string here."""
    sources = {path.relative_to(ROOT / "scripts").as_posix(): path for path in (ROOT / "scripts").rglob("*.py")}
    assert {name for name, path in sources.items() if re.search(pattern, path.read_text())} == WRITERS[pattern]


# Every module that makes a file by itself, with what is in it. Those that write JSON or tensors alone are not here:
# `gnorm.files` does that for them.
FILES = {
    # Text that people read: each gets the nasty string above, from the function that is named.
    "check_gpu.py": gpu.markdown,
    "make_dataset.py": prepare.summary,
    "summarize_bench.py": bench.markdown,
    "write_report.py": data_escaped,
    "write_reproduction.py": document.markdown,
    "write_verdict.py": verdict.markdown,
    "gnorm/figures/style.py": "figures",
    "gnorm/pages/kept.py": kept.TABLES,
    "gnorm/pages/workbooks.py": workbooks.write,
    "gnorm/pruning/exports.py": cards.write,
    "gnorm/statistics/columns.py": write_csv,
    "gnorm/tables/__init__.py": tables.write,
    # What programs read, or words and numbers of this package: see `WRITERS`.
    **dict.fromkeys(
        (
            *("count_parameters.py", "export_accuracy.py", "export_solution.py", "gradient_change.py"),
            *("measure_growth.py", "measure_shape.py", "measure_suite.py", "merge_criteria.py"),
            *("gnorm/files.py", "gnorm/running.py", "gnorm/models/checkpoints.py", "gnorm/data/archives.py"),
            "gnorm/models/folders.py",
            *("gnorm/data/records.py", "gnorm/data/sources/hub.py", "gnorm/data/sources/package.py"),
            *("gnorm/pruning/masks.py", "gnorm/pruning/parts.py", "gnorm/statistics/outcomes.py"),
        ),
        "data",
    ),
}
MAKES_A_FILE = {"write_text", "write_bytes", "writelines", "atomic", "savefig", "ExcelWriter", "writestr", "dump"}


def makes_a_file(call: ast.Call) -> bool:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    given = [*call.args[:2], *(keyword.value for keyword in call.keywords if keyword.arg == "mode")]
    modes = [one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    writes = name in ("open", "fdopen") and any(re.fullmatch("[rwxabt+]*[wxa+][rwxabt+]*", mode) for mode in modes)
    return name in MAKES_A_FILE or writes


def test_every_file_is_made_by_one_of_these():
    """A new one stands in `FILES`: then whoever adds it has to say which function shows strangers' text there."""
    sources = {path.relative_to(ROOT / "scripts").as_posix(): path for path in (ROOT / "scripts").rglob("*.py")}
    found = {
        name
        for name, path in sources.items()
        if any(isinstance(node, ast.Call) and makes_a_file(node) for node in ast.walk(ast.parse(path.read_text())))
    }
    assert found == set(FILES)
