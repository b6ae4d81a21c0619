#pragma once

#include <sys/resource.h>

#include <optional>
#include <string>

namespace rankshim::link {

/// Raises the soft limit of open files so that `needed` more can be opened, as far as the hard one allows.
/// Returns the limit that was, which the command is to get (setrlimit(2) in its process, for rankshim needs
/// the higher one as long as it holds connections); nothing if it was high enough. `short_of` gets a sentence
/// if the hard limit is too low.
std::optional<rlimit> raise_descriptors(rlim_t needed, std::string& short_of);

}  // namespace rankshim::link
