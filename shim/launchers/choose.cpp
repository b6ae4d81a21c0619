#include "launchers/choose.h"

#include <fmt/format.h>

#include <utility>

#include "launchers/native/native_launcher.h"
#include "launchers/torchrun/torchrun_launcher.h"

namespace rankshim::launchers {

Faults choose_launcher(LaunchChoice& choice, const plan::LaunchInput& input,
                       std::shared_ptr<const TorchrunCommand> own, bool is_named) {
  const auto& [topology, settings, command, node] = input;
  const std::string_view wanted = settings.text(Option::launcher);
  const bool has_processes = topology.is<CreatedProcess>();
  if (own && has_processes) {
    choice.warnings.push_back(
        fmt::format("{} has already started one process per accelerator, and torchrun would start workers "
                    "in each of them; give the script to rankshim instead (rankshim -- train.py)",
                    topology.platform.name()));
    own.reset();
  }
  const bool by_itself = wanted == "auto" && !has_processes && !is_named && (own || plan::is_script(command));
  if (wanted == "native") choice.launcher = std::make_shared<NativeLauncher>(own != nullptr);
  if (wanted == "torchrun" || wanted == "launch" || by_itself)
    choice.launcher = torchrun_launcher(settings, std::move(own));
  if (!choice.launcher->launches()) return {};
  if (!has_processes) return choice.launcher->faults(input);
  return refused(settings, Option::launcher,
                 fmt::format("the platform {} has already started one process per accelerator",
                             topology.platform.name()),
                 "leave --launcher (RANKSHIM_LAUNCHER) at auto");
}

}  // namespace rankshim::launchers
