"""Reviews a job off the cluster: its manifests before it runs (`rankshim-review FILE…`), and its reports afterwards."""
