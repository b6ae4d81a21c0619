#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "node/node.h"
#include "wait/wait.h"

/// `rankshim doctor`: finds what makes jobs fail before they start.
namespace rankshim::doctor {

enum class Severity : std::uint8_t {
  ok,
  warning,  ///< it may be right for this job
  problem,  ///< the job cannot work: exit 78
};

/// One line of the result.
struct Finding {
  Severity severity = Severity::ok;
  std::string subject;  ///< "/dev/shm"
  std::string text;     ///< the state; for a warning or a problem also what to do
};

/// What the interpreter for scripts reports about itself and about torch, which it finds without importing
/// it.
struct Python {
  std::string program;            ///< the full path; empty if no interpreter was found
  std::string version;            ///< "3.11.7"; empty if it could not be run
  bool has_torch = false;         ///< the package torch was found
  std::string torch;              ///< torch's version; empty if it is not known
  bool for_accelerators = false;  ///< that torch was built for CUDA, ROCm or another accelerator
};

/// What the checks need to know beside the node. Tests make it up.
struct Surroundings {
  std::vector<Finding> job;  ///< "node 1 of 2 on kubeflow-pytorchjob", or why it cannot be resolved
  std::string master;        ///< the master's name, if it is another node and no address
  unsigned workers = 1;      ///< on this node
  bool several_nodes = false;
  bool needs_torch = true;  ///< a Python script is started, or no command was given

  std::optional<std::uint64_t> shm;  ///< the size of /dev/shm in bytes; nothing if there is none
  std::string temporary;             ///< the folder for temporary files
  bool temporary_is_writable = true;
  wait::LookedUp own_name;            ///< of the host name
  wait::LookedUp masters_name;        ///< of `master`, if there is one
  bool clock_is_synchronised = true;  ///< adjtimex(2): no STA_UNSYNC
  std::int64_t now = 0;               ///< seconds since 1970
  Python python;
  /// Processes that have an accelerator's file open, "/dev/nvidia0: python3 (pid 4711)".
  std::vector<std::string> holders;
};

/// Makes all checks, in the order in which they are printed; pure.
std::vector<Finding> diagnose(const Surroundings& surroundings, const Node& node);

/// One line for each finding, with warnings and problems marked, and a line that counts them.
std::string as_text(const std::vector<Finding>& findings);

/// The same for programs.
std::string as_json(const std::vector<Finding>& findings);

}  // namespace rankshim::doctor
