#pragma once

#include <optional>
#include <string>

#include "node/node.h"
#include "settings/settings.h"
#include "topology/topology.h"
#include "torchrun/python_site.h"

namespace rankshim {

/// What a torchrun inside of a program is told, so that it joins the job: PET_ and the flag's name
/// (torch/distributed/argparse_util.py), for a static rendezvous and for one by c10d, less what `environment`
/// has already. Which of them it needs only its own command line shows (python/sitecustomize.py).
/// `master_address` as of plan_site.
Variables torchrun_job(const Topology& topology, const Settings& settings, const Node& node,
                       const std::optional<std::string>& master_address, const Environment& environment);

}  // namespace rankshim
