#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Lists of hosts as texts, also as schedulers abbreviate them, with ranges in brackets.
namespace rankshim::platform {

/// The separators between the entries of any list.
inline constexpr std::string_view list_separators = ", \t\r\n";

/// The hosts of a list or host file, in their order, each once. An entry may end with `:PORT` or `:SLOTS` and
/// have brackets around a V6 address. `slots=8` and the like, bare numbers (LSF's `h1 8 h2 8`) and comments
/// from `#` to the end of the line are no hosts and are left out.
std::vector<std::string_view> host_list(std::string_view list);

/// The index of `host` in host_list(list). Whole names are compared first, ignoring case. If none is equal,
/// one name may be the start of the other up to a dot (a name and its full name), if that holds for only one
/// host of the list.
std::optional<std::size_t> position(std::string_view host, std::string_view list);

/// Writes Slurm's host list (`n[1-3,07],gpu[0-1]x[2-3]`) out as `scontrol show hostnames` does: in the list's
/// order, with the last of several brackets changing fastest, numbers as wide as the low end of their range,
/// and the suffix after a bracket kept. Returns nothing if the list is malformed or has more than 65,536
/// hosts.
std::optional<std::vector<std::string>> expand_slurm(std::string_view list);

/// The hosts of Open MPI's orte_node_regex (2 to 4; open-mpi/ompi@v4.1.x:orte/mca/regx/base/
/// regx_base_default_fns.c orte_regx_base_extract_node_names): `head,n[2:1-3,7].example@0(5)` is head,
/// n01.example, n02.example, n03.example, n07.example; the part after `@` has the daemons' numbers. The first
/// host is the one where mpirun runs, with or without a process of the job. Returns nothing if the text is
/// malformed or has more than 65,536 hosts.
std::optional<std::vector<std::string>> expand_orte(std::string_view regex);

}  // namespace rankshim::platform
