#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/environment_change.h"

namespace rankshim {

/// Where Python looks for modules first. For the command it begins with rankshim's folder.
inline constexpr std::string_view python_path_variable = "PYTHONPATH";

/// rankshim's part in the start of each Python process of the command (python/sitecustomize.py).
struct PythonSite {
  bool had_path = false;  ///< the user has a PYTHONPATH
  /// The PET_* variables for a torchrun that the command starts, as far as they are not in the command's
  /// environment: they replace what its command line leaves out. Nothing if such a torchrun must not be
  /// changed.
  std::optional<Variables> job;
  std::string master;    ///< its address, IPv4 or IPv6, without brackets; empty if it is not known
  bool records = false;  ///< whether exceptions are recorded: of workers, and of a Python that is the command
};

/// The text of the module sitecustomize.py in two parts: the constant part, and after it the call for this
/// site. They are separate because a copy of the first would be the largest allocation of a start.
std::string_view python_site_module();
std::string python_site_call(const PythonSite& site);

}  // namespace rankshim
