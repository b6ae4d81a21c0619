#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/node.h"
#include "settings/settings.h"
#include "wait/look_up.h"

/// `rankshim doctor`: what makes jobs fail before they start.
namespace rankshim::doctor {

enum class Level : std::uint8_t {
  ok,
  warning,  ///< it may be right for this job
  problem,  ///< the job cannot work like this: exit 78
};

/// One line of the answer.
struct Finding {
  Level level = Level::ok;
  std::string subject;  ///< "/dev/shm"
  std::string text;     ///< what is there; for a warning or a problem also what to do
};

/// What the interpreter for scripts says of itself and of torch, which it finds without importing it.
struct Python {
  std::string program;            ///< the full path; empty where no interpreter was found
  std::string version;            ///< "3.11.7"; empty where it could not be run
  bool has_torch = false;         ///< it finds the package torch
  std::string torch;              ///< torch's version; empty where it is not known
  bool for_accelerators = false;  ///< that torch was built for CUDA, ROCm or another accelerator
};

/// What is asked of the system itself rather than of the node. Tests make it up.
struct Surroundings {
  std::optional<std::uint64_t> shm;  ///< the size of /dev/shm in bytes; nothing where there is none
  std::string temporary;             ///< the folder for temporary files
  bool temporary_is_writable = true;
  wait::LookedUp own_name;            ///< of the host name
  wait::LookedUp master;              ///< of the master's name, where the job has a master elsewhere
  bool clock_is_synchronised = true;  ///< adjtimex(2): no STA_UNSYNC
  std::int64_t now = 0;               ///< seconds since 1970
  Python python;
  /// Processes that have an accelerator's file open, "4711 (python3)".
  std::vector<std::string> holders;
};

/// Asks the system. `master` is looked up, where it is not empty; that and the own name take at most 5 s
/// each.
Surroundings look_around(const Node& node, const Settings& settings, const std::string& master);

/// The job as far as it was resolved; it decides what else has to be there.
struct Job {
  std::vector<Finding> findings;  ///< "node 1 of 2 on kubeflow-pytorchjob", or why it cannot be resolved
  std::string master;             ///< the master's name, where it is another node
  unsigned workers = 1;           ///< on this node
  bool several_nodes = false;
  bool needs_torch = true;  ///< a Python script is started, or no command was given
};

/// Pure: every check, in the order in which they are printed.
std::vector<Finding> diagnose(const Job& job, const Node& node, const Surroundings& surroundings);

/// A line for each finding; what was found to be wrong is easy to see.
std::string as_text(const std::vector<Finding>& findings);

}  // namespace rankshim::doctor
