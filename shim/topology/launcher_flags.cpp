#include "topology/launcher_flags.h"

#include <spdlog/fmt/fmt.h>

namespace rankshim {

Fault flag_contradicts(const std::string& flag, const std::string& other, const std::string& name) {
  const std::string option = flag.substr(flag.find(' ') + 1);
  return {fmt::format("{} contradicts {}", flag, other),
          {flag.substr(0, flag.find('=')), name},
          fmt::format("take {} out of the command: rankshim fills in what is not there; or correct {}; "
                      "--launcher=none (RANKSHIM_LAUNCHER) leaves torchrun to itself",
                      option.substr(0, option.find('=')), name)};
}

}  // namespace rankshim
