#include "supervise/ending.h"

#include <cerrno>
#include <csignal>

#include "base/fault.h"

namespace rankshim::supervise {

int exit_code_of(const Ending& ending) {
  switch (ending.kind) {
    case Ending::Kind::exited:
      return ending.number;
    case Ending::Kind::signalled:
      return exit_code::signal_base + (ending.killed_by_us ? SIGKILL : ending.number);
    case Ending::Kind::withheld:
      return exit_code::system;
    case Ending::Kind::not_started:
      break;
  }
  if (ending.failed_call != "execve") return exit_code::system;
  switch (ending.number) {
    case ENOENT:
    case ENOTDIR:
      return exit_code::not_found;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return exit_code::system;
    default:
      return exit_code::not_executable;
  }
}

}  // namespace rankshim::supervise
