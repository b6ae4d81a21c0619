#pragma once

#include "launchers/torchrun/python_site.h"
#include "node/environment.h"
#include "topology/topology.h"

namespace rankshim {

/// The variables with which a torchrun inside a program joins the job: PET_ and the flag's name
/// (torch/distributed/argparse_util.py), for a static rendezvous and for c10d, except those in `environment`.
/// The torchrun's command line decides which of them it needs (python/sitecustomize.py); that code also looks
/// up this node's address, which few of them need.
Variables torchrun_job(const Topology& topology, const Environment& environment);

}  // namespace rankshim
