"""rankshim-review trace --html: the page as a browser lays it out, which loads nothing else and draws no text over another."""

from __future__ import annotations

import pathlib

import pytest
from lib.browser import Browser, find_browser
from lib.requirements import cannot
from rankshim_review import trace
from review.jobs import Job, changed, content

HOSTILE = "</text><script>document.title='hacked'</script><img src=http://127.0.0.1/x onerror=alert(1)>\u202e" + "e" * 300
HANG = {
    "kind": "missing", "seconds": 0.4, "missing": "3", "waiting": "0-2", "group": "default_pg", "number": 61, "operation": "all_reduce",
    "place": {"file": "/app/train.py", "line": 8, "function": "load_batch"},
    "waits_at": {"file": "/app/train.py", "line": 16, "function": "train"},
    "groups": [{"ranks": "3", "pid": 7, "state": "S", "stack": [{"file": "/app/train.py", "line": 8, "function": "load_batch"}]}],
    "waits": [{"ranks": "0-2", "for": "3", "group": "default_pg", "number": 61, "operation": "all_reduce"}],
}
# The texts of each picture that are cut off, and the pairs that lie on each other.
FAULTS = """
[...document.querySelectorAll('.picture svg')].flatMap(svg => {
  const {width, height} = svg.viewBox.baseVal;
  const texts = [...svg.querySelectorAll('text')].map(text => ({words: text.firstChild.data, box: text.getBBox()}));
  const meet = (a, b) => a.x + 1 < b.x + b.width && b.x + 1 < a.x + a.width && a.y + 3 < b.y + b.height && b.y + 3 < a.y + a.height;
  const cut = texts.filter(({box}) => box.x < 0 || box.y < 0 || box.x + box.width > width || box.y + box.height > height + 2);
  const over = texts.flatMap((a, i) => texts.slice(i + 1).filter(b => meet(a.box, b.box)).map(b => a.words + ' / ' + b.words));
  return [...cut.map(({words}) => words), ...over];
})
"""


@pytest.fixture(scope="module")
def browser():
    if find_browser() is None:
        cannot("no headless Chromium: run scripts/setup")
    with Browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def reports(rankshim, tmp_path_factory):
    """Three linked nodes, restarted once, of which the second fails."""
    job = Job(rankshim, tmp_path_factory.mktemp("job"), 3, ["sh", "-c", "test $RANK != 3 || exit 3; exec sleep 1000"], "--link=on",
              "--job-restarts=1", "--restart-pause=0")
    assert job.wait() == [76, 3, 76]
    return job.paths


def large(path):
    """A report of node 0 that knows 4096 nodes."""
    nodes = content(path)["nodes"]
    return changed(path, nodes=[*nodes[:2], *({**nodes[2], "node_rank": rank, "host": f"node-{rank}"} for rank in range(2, 4096))])


PAGES = {
    "restarted": lambda paths: paths,
    "node 0's report alone": lambda paths: paths[:1],
    "a hang": lambda paths: [changed(path, hang=HANG) for path in paths],
    "a hostile message": lambda paths: [changed(path, verdict=HOSTILE, node={**content(path)["node"], "host": HOSTILE}) for path in paths],
    "4096 nodes": lambda paths: [large(paths[0])],
}


@pytest.mark.parametrize("name", PAGES)
def test_a_browser_shows_the_whole_page_and_loads_nothing_else(capsys, browser, reports, tmp_path, name):
    file: pathlib.Path = tmp_path / "job.html"
    assert trace.main(["--html", *PAGES[name](reports)]) == 0
    file.write_text(capsys.readouterr().out)
    asked, said = browser.open(file)
    assert (asked, said) == ([file.as_uri()], [])
    assert browser.evaluate("document.scripts.length + document.images.length") == 0
    assert browser.evaluate("document.title").startswith("failed: ")
    assert browser.evaluate("document.documentElement.scrollWidth") == 1200, "it is as wide as the window"
    assert browser.evaluate("document.querySelectorAll('.picture svg').length") in (1, 2)
    assert browser.evaluate(FAULTS) == []
