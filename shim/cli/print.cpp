#include "cli/print.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fault.h"
#include "base/files.h"
#include "base/log.h"
#include "cli/explain.h"

namespace rankshim::cli {
namespace {

/// Returns 0 or an errno.
int print_to(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    pollfd ready{descriptor, POLLOUT, 0};
    if (written < 0 && errno != EINTR && (errno != EAGAIN || poll(&ready, 1, -1) < 0)) return errno;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

}  // namespace

int print(std::string_view text) {
  const int error = print_to(STDOUT_FILENO, text);
  if (error == 0) return exit_code::ok;
  log::error("stdout cannot be written: {}{}", std::strerror(error), reference(Anchor::not_written));
  return exit_code::system;
}

void print_error(std::string_view text) { print_to(STDERR_FILENO, text); }

void report(const Faults& faults, bool json) {
  for (const Fault& fault : faults) log::error("{}", to_line(fault));
  if (json) static_cast<void>(print(explain::as_json(faults)));  // the caller's code is no success either
}

std::string licenses() {
  constexpr EmbeddedFile files[] = {
#include "licenses.inc"
  };
  std::string text;
  for (const EmbeddedFile& file : files) text.append(file.text) += '\n';
  return text;
}

}  // namespace rankshim::cli
