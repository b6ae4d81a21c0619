#pragma once

namespace rankshim {

/// rankshim's exit codes (sysexits.h and the shell's convention). A command that ran ends with its exit code,
/// or with 128 + the signal's number.
namespace exit_code {

inline constexpr int ok = 0;
inline constexpr int not_well = 1;      ///< status: there is no instance, or it is not as asked for
inline constexpr int usage = 64;        ///< EX_USAGE: the command line is wrong
inline constexpr int system = 71;       ///< EX_OSERR: the system refused (fork, memory, descriptors)
inline constexpr int unreachable = 75;  ///< EX_TEMPFAIL: the master or a peer was not reachable in time
inline constexpr int configuration =
    78;  ///< EX_CONFIG: the environment or configuration is incomplete or contradictory
inline constexpr int not_executable = 126;
inline constexpr int not_found = 127;
inline constexpr int signal_base = 128;

}  // namespace exit_code
}  // namespace rankshim
