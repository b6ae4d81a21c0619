"""rankshim is a program: this package only finds it (python -m rankshim)."""
