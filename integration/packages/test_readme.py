"""README.md as PyPI shows it, where it has no files beside it."""

import re
import runpy
import zipfile

from lib.documents import REPOSITORY

TEXT = (REPOSITORY / "README.md").read_text()
LINKS = re.findall(r"(!?)\[([^\]]*)\]\(([^)]+)\)", TEXT)
readme = runpy.run_path(str(REPOSITORY / "packaging/wheel/hatch_metadata.py"))["readme"]


def test_each_link_leads_to_the_versions_file():
    at = "https://example.org/o/rankshim"
    made = re.findall(r"(!?)\[([^\]]*)\]\(([^)]+)\)", readme(TEXT, at, "1.2.3"))
    assert LINKS and made == [(mark, text, target if ":" in target else f"{at}/{'raw' if mark else 'blob'}/v1.2.3/{target}")
                              for mark, text, target in LINKS]


def test_a_picture_leads_to_its_bytes():
    shown = readme("![a](docs/pictures/way.svg)", "https://example.org/o/rankshim", "1.2.3")
    assert shown == "![a](https://example.org/o/rankshim/raw/v1.2.3/docs/pictures/way.svg)"


def test_without_a_repository_a_link_is_its_text_and_a_picture_is_left_out():
    made = readme(TEXT, "", "1.2.3")
    assert re.findall(r"\]\((?!https?:)", made) == []
    assert all(text in made for mark, text, _ in LINKS if not mark)
    assert readme("![a](docs/pictures/way.svg)", "", "1.2.3") == ""


def test_addresses_stay():
    assert readme("[a](https://a.example/b) [c](#d)", "https://o.example/r", "1") == "[a](https://a.example/b) [c](#d)"


def test_the_wheels_page_has_no_link_to_a_file(only):
    with zipfile.ZipFile(only("*_x86_64.whl")) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        assert re.findall(r"\]\((?!https?:)", wheel.read(name).decode()) == []
