#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plan/environment_change.h"
#include "topology/topology.h"

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

/// The variables with which a torchrun inside a program joins the job: PET_ and the flag's name
/// (torch/distributed/argparse_util.py), for a static rendezvous and for c10d, except those in `environment`
/// and this node's address. The torchrun's command line decides which of them it needs
/// (python/sitecustomize.py).
Variables torchrun_job(const Topology& topology, const Environment& environment);

/// The text of the module sitecustomize.py for this site.
std::string python_site_text(const PythonSite& site);

}  // namespace rankshim
