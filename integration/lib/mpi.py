"""mpirun reaches other nodes by ssh; here by a program that enters their namespaces."""

import shlex

from lib.network import BECOME_NODE

OPEN_MPI = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe")


def ssh(path, nodes, environment=None):
    """Writes a stand-in for ssh, HOST COMMAND..., for whoever is asked to go to one of the nodes {host: node}; its path. The
    command has the caller's variables, or, as by a real sshd, only those of `environment`."""
    only = "" if environment is None else f"env -i {shlex.join(f'{name}={value}' for name, value in environment.items())} "
    path.write_text("#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nhost=$1\nshift\ncase $host in\n" + "".join(
        f"  {host}) exec {only}{' '.join(node.namespace.entry)} unshare --mount --uts -- "
        f"sh -c '{BECOME_NODE}' become-node {node._etc} {node.hostname} bash -c \"$*\" ;;\n" for host, node in nodes.items()
    ) + "esac\n")
    path.chmod(0o755)
    return str(path)
