#include "cli/print.h"

#include <unistd.h>

#include "base/log.h"
#include "cli/explain.h"

namespace rankshim::cli {
namespace {

void print_to(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace

void print(std::string_view text) { print_to(STDOUT_FILENO, text); }

void print_error(std::string_view text) { print_to(STDERR_FILENO, text); }

void report(const Faults& faults, bool json) {
  for (const Fault& fault : faults) log::error("{}", to_line(fault));
  if (json) print(explain::as_json(faults));
}

}  // namespace rankshim::cli
