"""What is imported before go: the imports at the head of the script, in its order, as far as nothing else can come of it.

The packages here are fakes, which note when they are imported. Only their names are those of real ones.
"""

import pytest

NOTE = "import os, sys\nopen(os.environ['NOTES'], 'a').write(__name__ + ' ')\n"
FAKES = {
    "torch": NOTE + "import numpy, random\n",
    "numpy": NOTE,
    "comet_ml": NOTE + "assert 'torch' not in sys.modules, 'comet_ml comes before torch'\n",
    "mpi4py": NOTE,
    "lightning": NOTE + "open(os.environ['NOTES'], 'a').write('rank=' + os.environ['RANK'] + ' ')\n",
    "usual": NOTE,
}
# By what they say: the script, and what is imported early.
HEADS = {
    "torch alone": ("import torch\n", "torch numpy"),
    "the order counts": ("import numpy as np\nimport torch\n", "numpy torch"),
    "words and futures": ('#!/usr/bin/python3\n# -*- coding: latin-1 -*-\n"""Doc \xe9."""\nfrom __future__ import annotations\nimport torch\n', "torch numpy"),
    "a byte order mark": ("\ufeffimport torch\n", "torch numpy"),
    "several in a line": ("import os, torch, mpi4py, numpy\n", "torch numpy"),
    "names from modules": ("from os.path import join\nfrom numpy import *\nfrom torch import numpy as np\n", "numpy torch"),
    "mpi4py": ("import numpy\nfrom mpi4py import MPI\nimport torch\n", "numpy"),
    "comet_ml before torch": ("import comet_ml\nimport torch\n", ""),
    "a library that reads RANK": ("import torch\nimport lightning\n", "torch numpy"),
    "the script's own module": ("import numpy\nimport own\nimport torch\n", "numpy"),
    "a relative import": ("from . import own\nimport torch\n", ""),
    "an environment variable": ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch\n", ""),
    "in the same line": ("import numpy; import os; os.environ['A'] = '1'; import torch\n", "numpy"),
    "an assignment": ("__version__ = '1'\nimport torch\n", ""),
    "a condition": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import numpy\nimport torch\n", ""),
    "an import that may fail": ("import sys\ntry:\n    import torch\nexcept ImportError:\n    pass\n", ""),
    "a function": ("import numpy\ndef main():\n    import torch\nmain()\n", "numpy"),
    "a package that is not there": ("import numpy\nimport no_such_module\n", "numpy"),
    "no imports": ("print(1)\n", ""),
    "nothing": ("", ""),
}


@pytest.fixture
def place(start, tmp_path):
    """place(…) is start.both(…), with the fakes on the path; it returns what was imported early, and compares the rest."""
    packages = tmp_path / "packages"
    packages.mkdir()
    notes = tmp_path / "notes"
    for name, text in FAKES.items():
        (packages / f"{name}.py").write_text(text)
    start.write(own=NOTE)
    env = {"NOTES": str(notes), "PYTHONPATH": f":{packages}"}

    def early(*argv, names="auto", **how):
        with start.plain(*argv, env=env, **how) as plain:
            code = plain.wait()
        all_of_it = notes.read_text() if notes.exists() else ""
        notes.unlink(missing_ok=True)
        with start.prepared(*argv, env=env, names=names, **how) as prepared:
            assert prepared.is_ready(), prepared.transcript()
            found = notes.read_text() if notes.exists() else ""
            assert prepared.stdout + prepared.stderr == ""
            assert (prepared.go(), prepared.stdout, prepared.stderr) == (code, plain.stdout, plain.stderr)
        assert names != "auto" or (notes.read_text() if notes.exists() else "") == all_of_it
        notes.unlink(missing_ok=True)
        return found.strip()

    early.start, early.env, early.notes = start, env, notes
    return early


@pytest.mark.parametrize("case", HEADS)
def test_the_imports_at_the_head_of_a_script(place, case):
    text, imported = HEADS[case]
    (place.start.folder / "train.py").write_bytes(text.encode("latin-1" if "latin-1" in text else "utf-8"))
    assert place("train.py") == imported


def test_a_module_of_a_package_comes_after_its_packages(place):
    place.start.write(pkg____init__="import numpy\n", pkg__mod="import torch\n")
    assert place("-m", "pkg.mod") == "numpy torch"
    place.start.write(pkg____init__="import numpy\nimport usual\n")
    assert place("-m", "pkg.mod") == "numpy"
    place.start.write(pkg____init__="import os\nos.environ['A'] = '1'\n")
    assert place("-m", "pkg.mod") == ""
    place.start.write(pkg____init__='"""Only words."""\n', pkg____main__="import torch\n")
    assert place("-m", "pkg") == "torch numpy"
    (place.start.folder / "pkg" / "__init__.py").unlink()
    assert place("-m", "pkg.mod") == "torch numpy"


def test_what_the_user_names_is_imported_after_them_and_as_the_script_would_find_it(place):
    place.start.write(train="import numpy\nprint(1)\nimport usual, own, pkg.mod\n", pkg__mod=NOTE)
    assert place("train.py", names="auto,usual,pkg.mod") == "numpy usual pkg.mod"
    assert place("train.py", names="own") == "own"
    assert place("train.py", names="") == ""


def test_a_link_to_a_script_leads_to_its_folder(place, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    place.start.write(elsewhere__train="import usual\nimport torch\n", elsewhere__comet_ml=NOTE)
    (tmp_path / "train.py").symlink_to("elsewhere/train.py")
    (tmp_path / "elsewhere" / "train.py").write_text("import numpy\nimport comet_ml\nimport torch\n")
    assert place("train.py") == "numpy"


