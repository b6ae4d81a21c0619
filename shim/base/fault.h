#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rankshim {

/// Something wrong that the user can put right. Faults are values: a stage collects all that it finds and
/// returns them, so that one run shows every mistake.
struct Fault {
  std::string what;                ///< what is wrong, with the values that show it
  std::vector<std::string> names;  ///< the variables, options, keys or files concerned
  std::string fix;                 ///< what to do, ending with the option or variable that settles it
  bool transient = false;          ///< it may end by itself: a caller that can wait tries again
};

using Faults = std::vector<Fault>;

/// A stage's value, or everything that was wrong with its input.
template <class Value>
using Outcome = std::variant<Value, Faults>;

/// The fault as the one line for stderr: what is wrong, then what to do.
inline std::string to_line(const Fault& fault) { return fault.what + "; " + fault.fix; }

/// rankshim's exit codes (sysexits.h and the shell's convention). A command that ran ends with its exit code,
/// or with 128 + the signal's number.
namespace exit_code {

inline constexpr int ok = 0;
inline constexpr int not_well = 1;      ///< status: there is no instance, or it is not as asked for
inline constexpr int usage = 64;        ///< EX_USAGE: the command line is wrong
inline constexpr int system = 71;       ///< EX_OSERR: the system refused (fork, memory, descriptors)
inline constexpr int unreachable = 75;  ///< EX_TEMPFAIL: the master or a peer was not reachable in time
inline constexpr int peer = 76;  ///< EX_PROTOCOL: another node failed first, and this one was ended for it
inline constexpr int configuration =
    78;  ///< EX_CONFIG: the environment or configuration is incomplete or contradictory
inline constexpr int not_executable = 126;
inline constexpr int not_found = 127;
inline constexpr int signal_base = 128;

}  // namespace exit_code
}  // namespace rankshim
