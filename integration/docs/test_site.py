"""The documents as a site."""

import pathlib
import re
import subprocess
import sys

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGES = re.findall(r"^ +- .*: (\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.M)
MOST_PAGES, MOST_WORDS = 14, 20_000


def build(config, site):
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", site],
        capture_output=True, text=True, timeout=120,
    )


def test_the_site_is_built_without_a_warning(tmp_path):
    done = build(REPOSITORY / "mkdocs.yml", tmp_path)
    assert done.returncode == 0, done.stderr
    # A page outside docs/ is there, with the file that it links to, and a page that links to it.
    assert (tmp_path / "examples" / "volcano" / "svc-env.yaml").exists()
    assert 'href="svc-env.yaml"' in (tmp_path / "examples" / "volcano" / "index.html").read_text()
    assert 'href="examples/"' in (tmp_path / "index.html").read_text()


def test_a_link_that_leads_nowhere_is_noticed(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# A\n\n[gone](#not-there)\n")
    config = (REPOSITORY / "mkdocs.yml").read_text()
    validation = re.search(r"^validation:\n(?:  .*\n)+", config, re.M)[0]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: x\n{validation}")
    assert "not-there" in build(tmp_path / "mkdocs.yml", tmp_path / "site").stderr


def test_the_picture_is_made_of_its_source():
    source = (REPOSITORY / "docs" / "pictures" / "way.dot").read_text()
    words = " ".join(re.findall(r'label="([^"]*)"', source)).replace("\\n", " ").split()
    picture = (REPOSITORY / "docs" / "pictures" / "way.svg").read_text()
    drawn = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", picture)).replace("&#45;", "-")
    assert sorted(drawn.split()) == sorted(words)


def test_the_guide_can_be_read_in_an_afternoon():
    assert 10 < len(PAGES) <= MOST_PAGES
    # A word has a letter or a digit; a table's rules have none.
    words = {page: len(re.findall(r"\S*\w\S*", (REPOSITORY / "docs" / page).read_text())) for page in PAGES}
    assert sum(words.values()) <= MOST_WORDS, words


def test_each_page_of_the_guide_is_in_its_contents():
    assert sorted(PAGES) == sorted(path.name for path in (REPOSITORY / "docs").glob("*.md"))
