#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "launchers/choose.h"
#include "launchers/torchrun/inner_torchrun.h"
#include "node/fake_host_for_test.h"
#include "run/plan.h"
#include "topology/topology.h"

/// For tests: all steps from a node and a command line to the plan, as explain shows it.
namespace rankshim::run::for_test {

using Words = std::vector<std::string>;

/// A choice and its plan as explain shows them, with the content of sitecustomize.py.
struct ShownPlan : launchers::LaunchChoice, launchers::LaunchPlan {
  std::optional<launchers::PythonSite> site;
  SignalScope scope = SignalScope::child;
};

/// The result of a command line on a node.
struct Planned {
  topology::Topology topology;
  Outcome<ShownPlan> plan;
};

/// Fails the test where the settings or the topology are refused.
Planned try_plan(const node::Host& host, Words line);

/// The same, but fails the test if there is no plan.
ShownPlan planned(const node::Host& host, Words line);

/// The command's environment.
node::Environment environment_of(const launchers::LaunchPlan& plan, const node::Host& host);

/// Node 1 of 3 of a PyTorchJob.
inline const Words kubeflow = {"PATH=/usr/bin",     "RANK=1",
                               "WORLD_SIZE=3",      "MASTER_ADDR=job-master-0",
                               "MASTER_PORT=23456", "PYTHONUNBUFFERED=0"};

}  // namespace rankshim::run::for_test
