#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launch/environment_change.h"

namespace rankshim {

/// Where Python looks for modules first. The command's has a folder of ours in front.
inline constexpr std::string_view python_path_variable = "PYTHONPATH";

/// Our part in the start of each Python process of the command (python/sitecustomize.py).
struct PythonSite {
  bool had_path = false;  ///< the user has a PYTHONPATH
  /// What a torchrun that the command starts is given for what its command line leaves out: the PET_* that
  /// are not in the command's environment. Nothing where torchrun is to be left alone.
  std::optional<Variables> job;
  std::string master;    ///< its address, IPv4 or IPv6, without brackets; empty where it is not known
  bool records = false;  ///< the exceptions of workers
};

/// The module's text, for sitecustomize.py: what is the same for all, and behind it the call that serves this
/// site. Apart, for a copy of the first would be the largest piece of memory of a start.
std::string_view python_site_module();
std::string python_site_call(const PythonSite& site);

}  // namespace rankshim
