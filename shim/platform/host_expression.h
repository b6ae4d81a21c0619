#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Hosts as schedulers abbreviate them, with ranges in brackets.
namespace rankshim::platform {

/// Slurm's host list (`n[1-3,07],gpu[0-1]x[2-3]`) written out as `scontrol show hostnames` does: in the
/// list's order, of several brackets the last running fastest, numbers as wide as the low end of their range
/// is written; a suffix behind a bracket is kept. `n[000x133]` is a box of a machine with several dimensions:
/// every digit runs from the low corner's to the high one's, base 36, the last fastest. Nothing where the
/// list is malformed or has more than 65,536 hosts.
std::optional<std::vector<std::string>> expand_slurm(std::string_view list);

/// The hosts of Open MPI's orte_node_regex (2 to 4; open-mpi/ompi@v4.1.x:orte/mca/regx/base/
/// regx_base_default_fns.c orte_regx_base_extract_node_names): `head,n[2:1-3,7].example@0(5)` is head,
/// n01.example, n02.example, n03.example, n07.example; behind `@` stand the daemons' numbers. The first host
/// is where mpirun runs, whether a process of the job does or not. Nothing where it is malformed or has more
/// than 65,536 hosts.
std::optional<std::vector<std::string>> expand_orte(std::string_view regex);

}  // namespace rankshim::platform
