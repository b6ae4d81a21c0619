#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/fault.h"
#include "base/log.h"
#include "cli/subcommands.h"

namespace rankshim::cli {
namespace {

std::string failed(const char* call, const std::string& path) {
  return fmt::format("cannot {} {}: {}", call, path, std::strerror(errno));
}

std::string copy(int from, int to, const std::string& path) {
  while (true) {
    const ssize_t sent = sendfile(to, from, nullptr, 1 << 20);
    if (sent == 0) return {};
    if (sent < 0) return failed("write", path);
  }
}

/// Copies the running binary to FOLDER/rankshim, mode 0755, by a temporary file and a rename, so that no
/// process ever sees an incomplete one. Returns what went wrong; empty if nothing did.
std::string install(const std::string& folder) {
  const int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (from < 0) return failed("read", "/proc/self/exe");
  const std::string target = folder + "/rankshim";
  // An unused name. The process number would not do: an interrupted copy may have the same, because in a
  // container it is always 1.
  std::string temporary = target + ".XXXXXX";
  const int to = mkostemp(temporary.data(), O_CLOEXEC);
  if (to < 0) {
    std::string what = failed("create", temporary);
    close(from);
    return what;
  }
  std::string what = copy(from, to, temporary);
  if (what.empty() && fchmod(to, 0755) != 0) what = failed("change the mode of", temporary);
  if (close(to) != 0 && what.empty()) what = failed("write", temporary);
  if (what.empty() && std::rename(temporary.c_str(), target.c_str()) != 0) what = failed("create", target);
  if (!what.empty()) unlink(temporary.c_str());
  close(from);
  return what;
}

}  // namespace

int install_binary(const std::string& folder) {
  const std::string what = install(folder);
  if (what.empty()) return print(fmt::format("{}/rankshim is rankshim " RANKSHIM_VERSION " now\n", folder));
  log::error("{}{}", what, reference(Anchor::not_written));
  return exit_code::system;
}

}  // namespace rankshim::cli
