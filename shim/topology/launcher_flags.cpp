#include "topology/launcher_flags.h"

#include <fmt/format.h>

namespace rankshim {

Fault flag_contradicts(const std::string& flag, const std::string& other, const std::string& name) {
  const std::string option = flag.substr(flag.find(' ') + 1);
  return {fmt::format("{} contradicts {}", flag, other),
          {flag.substr(0, flag.find('=')), name},
          fmt::format("take {} out of the command, because rankshim fills in what is missing, or correct {}; "
                      "--launcher=none (RANKSHIM_LAUNCHER) leaves the command as it is",
                      option.substr(0, option.find('=')), name)};
}

}  // namespace rankshim
