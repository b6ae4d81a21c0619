#pragma once

#include <string>
#include <string_view>

#include "base/fault.h"
#include "platform/profile.h"

namespace rankshim::platform {

/// Reads one TOML document; `name` is the file's name without .toml. Every fault begins with "PATH:LINE: "
/// and names `path`. The build uses it for the built-in profiles, and the program at run time for a user's
/// profile, so that both follow the same rules. Any document results in a profile, of which `store` has the
/// memory, or faults.
///
// clang-format off
///     title      = "for a person"              required
///     kind       = "platform"                  or another of kind_names
///     opt_in     = false                       recognised by name only
///     signs      = ["A_RANK", "larger(${A_SIZE}, 1)"]   recognised if one holds; the more hold, the surer
///     unless     = ["LOCAL_RANK"]              not recognised if one holds
///     supersedes = ["volcano", "kubeflow-*"]   globs of profiles that are less specific than this one
///     agents     = ["dlrover-run"]             globs of programs that find the master by themselves
///
///     [let]                                    expressions that are used more than once; $table is this one
///     table = "file(${TABLE:-/etc/a.json})"    a list: the first that yields something
///
///     [[match]]                                a way to recognise the platform by more than a sign
///     all = ["A", "!B", "C=GLOB", "!D=GLOB", "hostname()=*-worker-*", "$table"]
///     any = ["E", "F"]                         one of these at least, besides all of `all`; either key may be missing
///
///     [facts]                                  for each of fact.h an expression (expression.h) or a list of them
///     node_rank = ["${A_RANK}", "ordinal(hostname())"]
///     nnodes    = { same = ["${A_SIZE}", "count(field($table, hosts))"] }   those that yield something must agree
///
///     [[idle_role]]                            a part of the job that does not train
///     name = "MPI launcher"
///     fix  = "start it with mpirun"            what to do instead; optional; also in [[refuse]]
///     when = ["ROLE=launcher"]                 as `all` of [[match]], and so is `any`
///
///     [[refuse]]                               a state that can mean two things; --platform NAME settles it
///     name = "A_SIZE counts the tasks of all roles"
///     when = ["A_ROLES=*,*"]
///
///     [[pending]]                              a state that has to be over before the facts can be read
///     name = "the table is initializing"
///     when = ["field($table, status)=initializing"]
// clang-format on
Outcome<Profile> read_profile(std::string_view name, std::string document, std::string_view path,
                              Store& store);

}  // namespace rankshim::platform
