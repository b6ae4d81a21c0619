#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace rankshim {

/// The code of an error, under which docs/when-it-fails.md says what to do. Errors with the same remedy share
/// one code. Once released, a number keeps its meaning; new ones are added at the end.
enum class ErrorCode : std::uint8_t {
  none = 0,
  command_line = 1,
  value = 2,
  unknown_setting = 3,
  config_file = 4,
  profile_file = 5,
  unknown_platform = 6,
  nnodes_unknown = 7,
  rank_unknown = 8,
  master_unknown = 9,
  contradiction = 10,
  rank_unit = 11,
  left_over = 12,
  no_number = 13,
  not_below = 14,
  no_host = 15,
  own_address = 16,
  not_alone = 17,
  looks_like_several = 18,
  platform_state = 19,
  document = 20,
  devices = 21,
  role = 22,
  launcher = 23,
  job_restarts = 24,
  python = 25,
  no_such_name = 26,
  name_server = 27,
  port_closed = 28,
  port_silent = 29,
  placeholder = 30,
  nodes_missing = 31,
  nodes_differ = 32,
  job_token = 33,
  no_link = 34,
  rendezvous = 35,
  trains_alone = 36,
  node_failed = 37,
  node_stopped = 38,
  node_lost = 39,
  system = 40,
  not_written = 41,
  hang = 42,
  collectives_differ = 43,
  store_silent = 44,
  nobody_missing = 45,
};

/// "R17"; empty for `none`.
inline std::string code_of(ErrorCode error_code) {
  return error_code == ErrorCode::none ? "" : "R" + std::to_string(static_cast<unsigned>(error_code));
}

/// " [R17]", for the end of a message; empty for `none`.
inline std::string reference(ErrorCode error_code) {
  return error_code == ErrorCode::none ? "" : " [" + code_of(error_code) + "]";
}

/// A mistake that the user can fix. Faults are values: a stage collects and returns all that it finds, so
/// that one run shows every mistake.
struct Fault {
  ErrorCode error_code;            ///< never `none`
  std::string what;                ///< what is wrong, with the values that show it
  std::vector<std::string> names;  ///< the variables, options, keys or files concerned
  std::string fix;                 ///< what to do, ending with the option or variable that settles it
  bool transient = false;          ///< it may go away on its own: a caller that can wait tries again
};

using Faults = std::vector<Fault>;

/// A stage's value, or everything that was wrong with its input.
template <class Value>
using Outcome = std::variant<Value, Faults>;

/// The fault as one line for stderr: what is wrong, then what to do.
inline std::string to_line(const Fault& fault) {
  return fault.what + "; " + fault.fix + reference(fault.error_code);
}

/// rankshim's own exit codes (from sysexits.h and the shell). A command's end is its own code, or 128 + its
/// signal.
namespace exit_code {

inline constexpr int ok = 0;
inline constexpr int not_well = 1;      ///< status: no instance, or not in the wanted state
inline constexpr int usage = 64;        ///< EX_USAGE: the command line is wrong
inline constexpr int system = 71;       ///< EX_OSERR: the system refused (fork, memory, descriptors)
inline constexpr int unreachable = 75;  ///< EX_TEMPFAIL: the master or a peer was not reachable in time
inline constexpr int peer = 76;         ///< EX_PROTOCOL: another node failed first, and stopped this one
inline constexpr int hang = 124;  ///< as timeout(1): a worker of this node hung, and all others waited for it
inline constexpr int configuration = 78;  ///< EX_CONFIG: the settings are incomplete or contradictory
inline constexpr int not_executable = 126;
inline constexpr int not_found = 127;
inline constexpr int signal_base = 128;

}  // namespace exit_code
}  // namespace rankshim
