"""A package that is taken for PyTorch, where only its launcher is asked."""


def make_torch_stand_in(folder, launcher):
    """Makes it in `folder`, which is for PYTHONPATH: `python -m torch.distributed.run` runs the Python text `launcher`."""
    package = folder / "torch" / "distributed"
    package.mkdir(parents=True, exist_ok=True)
    for path in (package.parent, package):
        (path / "__init__.py").touch()  # without it the real PyTorch comes first
    (package / "run.py").write_text(launcher)
