"""Looks at a job off the cluster: manifests before they run (`rankshim-review FILE…`), and reports after."""
