#pragma once

#include "node/environment.h"
#include "settings/settings.h"
#include "topology/topology.h"
#include "torchrun/python_site.h"

namespace rankshim {

/// What a torchrun inside of a program is told, so that it joins the job: PET_ and the flag's name
/// (torch/distributed/argparse_util.py), for a static rendezvous and for one by c10d, less what `environment`
/// has already. Which of them it needs only its own command line shows (python/sitecustomize.py); this node's
/// own address, which few of them need, is looked up there.
Variables torchrun_job(const Topology& topology, const Settings& settings, const Environment& environment);

}  // namespace rankshim
