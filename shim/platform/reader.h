#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/fault.h"
#include "platform/profile.h"

namespace rankshim::platform {

/// A profile and the memory that its tables lie in.
class OwnedProfile {
 public:
  OwnedProfile();
  ~OwnedProfile();
  OwnedProfile(OwnedProfile&&) noexcept;
  OwnedProfile& operator=(OwnedProfile&&) noexcept;
  [[nodiscard]] const Profile& profile() const;
  [[nodiscard]] std::string_view document() const;

 private:
  friend Outcome<OwnedProfile> read_profile(std::string_view name, std::string document,
                                            std::string_view path);
  struct Storage;
  std::unique_ptr<Storage> storage_;
};

/// A longer document is refused: no profile needs it, and nesting is bounded by it.
inline constexpr std::size_t longest_document = std::size_t{64} * 1024;

/// Reads one TOML document; `name` is the file's name without .toml. Every fault begins with "PATH:LINE: "
/// and names `path`. Used by the build for the built-in profiles and at run time for a user's own, so that
/// both follow the same rules. Whatever the document holds, the answer is a profile or faults.
///
// clang-format off
///     title      = "for a person"              required
///     kind       = "platform"                  or another of kind_names
///     opt_in     = false                       recognised by name only
///     signs      = ["A_RANK", "larger(${A_SIZE}, 1)"]   recognised where one holds; the more, the surer
///     unless     = ["LOCAL_RANK"]              not recognised where one holds
///     supersedes = ["volcano", "kubeflow-*"]   globs of profiles that are less specific, whatever they ask for
///     agents     = ["dlrover-run"]             globs of programs that find the master by themselves
///
///     [let]                                    expressions that are used more than once; $table is this one
///     table = "file(${TABLE:-/etc/a.json})"    a list: the first that yields something
///
///     [[match]]                                a way to be recognised that is more than a sign
///     all = ["NAME", "!NAME", "NAME=GLOB", "!NAME=GLOB", "hostname()=*-worker-*", "$table"]
///     any = ["A", "B"]                         of these one at least, besides all of `all`; one of the two may lack
///
///     [facts]                                  each of fact.h: a place (expression.h) or a list of them
///     node_rank = ["${A_RANK}", "ordinal(hostname())"]
///     nnodes    = { same = ["${A_SIZE}", "count(field($table, hosts))"] }   those that are there must agree
///
///     [[idle_role]]                            a part of the job that does not train
///     name = "MPI launcher"
///     fix  = "start it with mpirun"            what to do instead; also in [[refuse]]; may lack
///     when = ["ROLE=launcher"]                 as `all` of [[match]], and so is `any`
///
///     [[refuse]]                               what can mean two things; --platform NAME settles it
///     name = "A_SIZE counts the tasks of all roles"
///     when = ["A_ROLES=*,*"]
///
///     [[pending]]                              what has to be over before the facts can be read
///     name = "the table is initializing"
///     when = ["field($table, status)=initializing"]
// clang-format on
Outcome<OwnedProfile> read_profile(std::string_view name, std::string document, std::string_view path);

}  // namespace rankshim::platform
