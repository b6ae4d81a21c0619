#include "node/slurm_step.h"

#include <string>
#include <variant>

#include "base/files.h"
#include "base/text.h"
#include "node/process.h"

namespace rankshim::node {

bool signals_every_process(std::string_view slurm_conf) {
  while (!slurm_conf.empty()) {
    std::string_view line = next_line(slurm_conf);
    line = split_next(line, "#");
    const std::string_view name = trimmed(split_next(line, "="));
    if (same_but_case(name, "ProctrackType")) return same_but_case(trimmed(line), "proctrack/linuxproc");
  }
  return false;
}

SlurmStep::SlurmStep(const Environment& environment) {
  if (!environment.get("SLURM_STEP_ID")) return;
  const auto file = read_file(std::string(environment.get("SLURM_CONF").value_or("/etc/slurm/slurm.conf")));
  const auto* text = std::get_if<std::string>(&file);
  signals_every_process_ = text != nullptr && signals_every_process(*text);
}

bool SlurmStep::has_signalled_all(pid_t sender) const {
  return signals_every_process_ && sender > 0 &&
         trimmed(read_proc(sender, "comm").value_or("")) == "slurmstepd";
}

}  // namespace rankshim::node
