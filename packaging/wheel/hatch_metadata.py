"""README.md as a package's page shows it, which knows no files of the repository: links and pictures lead to the version's files.

`repository` in pyproject.toml says where these are. While it is empty, a link is only its text, and a picture is left out.
"""

import pathlib
import re

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<target>[^)]+)\)")


def readme(text, repository, version):
    """The text with the addresses of a tag of the repository, "" if there is none. They are those of GitHub, Gitea and GitLab."""

    def lead(link):
        if not repository:
            return "" if link["picture"] else link["text"]
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({repository}/{kind}/v{version}/{link['target']})"

    return LINK.sub(lead, text)


class Hook(MetadataHookInterface):
    def update(self, metadata):
        root = pathlib.Path(self.root)
        repository, text = self.config["repository"], (root / "README.md").read_text()
        metadata["readme"] = {"content-type": "text/markdown", "text": readme(text, repository, metadata["version"])}
        if repository:
            metadata["urls"] = {"Repository": repository, "Changelog": f"{repository}/blob/v{metadata['version']}/CHANGELOG.md"}
