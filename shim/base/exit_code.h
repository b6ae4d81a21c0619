#pragma once

namespace rankshim {

/// Exit codes of our own (sysexits.h and the shell's convention). A command that ran ends with its own code,
/// or with 128 + the signal's number.
namespace exit_code {

inline constexpr int ok = 0;
inline constexpr int not_well = 1;      ///< status: no instance, or not as asked for
inline constexpr int usage = 64;        ///< EX_USAGE: wrong command line
inline constexpr int system = 71;       ///< EX_OSERR: the system refused (fork, memory, descriptors)
inline constexpr int unreachable = 75;  ///< EX_TEMPFAIL: the master or a peer did not come in time
inline constexpr int configuration =
    78;  ///< EX_CONFIG: environment or configuration incomplete or contradictory
inline constexpr int not_executable = 126;
inline constexpr int not_found = 127;
inline constexpr int signal_base = 128;

}  // namespace exit_code
}  // namespace rankshim
