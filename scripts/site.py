"""A hook of mkdocs: examples/ and install/ are part of the site, and links lead where the site has their target.

In the repository the documents link to each other by their paths. A link to what the site does not have, such as a source
file, becomes its text.
"""

import os
import pathlib
import re

from mkdocs.structure.files import File

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("examples", "install")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)]*)?\)")


def on_files(files, config):
    """Adds the folders outside docs/."""
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*")):
            if path.is_file():
                files.append(File.generated(config, str(path.relative_to(REPOSITORY)), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links between files of the repository into links between pages of the site."""
    known = {os.path.realpath(file.abs_src_path): file.src_uri for file in files if file.abs_src_path}
    folder = os.path.dirname(os.path.realpath(page.file.abs_src_path))

    def turn(match):
        text, target, anchor = match[1], match[2], match[3] or ""
        if ":" in target:
            return match[0]
        place = known.get(os.path.realpath(os.path.join(folder, target)))
        if place is None:
            return text
        return f"[{text}]({os.path.relpath(place, os.path.dirname(page.file.src_uri) or '.')}{anchor})"

    return LINK.sub(turn, markdown)
