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
///     title       = "for a person"              required
///     granularity = "node"                      or "process": one process per worker exists already
///     opt_in      = false                       recognised by name only
///     fallback    = 0                           see Profile
///     supersedes  = ["volcano", "kubeflow-*"]   globs of profiles that are less specific, whatever they ask
///     for
///     [[match]]                                 one way to be recognised; required unless opt_in
///     all = ["NAME", "!NAME", "NAME=GLOB", "!NAME=GLOB", "hostname()=*-worker-*", "file(/etc/x)"]
///     any = ["A", "B"]                          of these at least one, besides all of `all`; one of the two
///     may lack [facts]                                   each of fact.h: a place or a list of places
///     (expression.h) node_rank = ["${A_RANK}", "ordinal(hostname())"]
///     [[idle_role]]                             a part of the job that does not train
///     name = "MPI launcher"
///     fix  = "start it with mpirun"             what to do instead; also in refuse; may lack
///     when = ["ROLE=launcher"]                  as `all` in match
///     [[refuse]]                                what can mean two things; --platform NAME settles it
///     name = "A and B cannot both be the number of GPUs"
///     when = ["!only_if(${A}, ${B}, 1)"]
///     [[pending]]                               what has to be over before the facts can be read
///     name = "the rank table is initializing"
///     when = ["field(file(/user/x.json), status)=initializing"]
Outcome<OwnedProfile> read_profile(std::string_view name, std::string document, std::string_view path);

}  // namespace rankshim::platform
