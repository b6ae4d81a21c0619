#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/fault.h"
#include "base/log.h"
#include "cli/subcommands.h"

namespace rankshim::cli {
namespace {

/// Copies the running binary to FOLDER/rankshim, mode 0755, by a temporary file and a rename, so that no
/// process ever sees an incomplete one. Returns what went wrong; empty if nothing did.
std::string install(const std::string& folder) {
  namespace fs = std::filesystem;
  const std::string target = folder + "/rankshim";
  // An unused name. The process number would not do: an interrupted copy may have the same, because in a
  // container it is always 1.
  std::string temporary = target + ".XXXXXX";
  const int made = mkostemp(temporary.data(), O_CLOEXEC);
  if (made < 0) return fmt::format("cannot create {}: {}", temporary, std::strerror(errno));
  close(made);
  std::error_code error;
  std::string what = "write " + temporary;
  fs::copy_file("/proc/self/exe", temporary, fs::copy_options::overwrite_existing, error);
  if (!error) {
    what = "change the mode of " + temporary;
    fs::permissions(temporary, fs::perms{0755}, error);
  }
  if (!error) {
    what = "create " + target;
    fs::rename(temporary, target, error);
  }
  if (!error) return {};
  unlink(temporary.c_str());
  return fmt::format("cannot {}: {}", what, error.message());
}

}  // namespace

int install_binary(const std::string& folder) {
  const std::string what = install(folder);
  if (what.empty()) return print(fmt::format("{}/rankshim is rankshim " RANKSHIM_VERSION " now\n", folder));
  log::error("{}{}", what, reference(Anchor::not_written));
  return exit_code::system;
}

}  // namespace rankshim::cli
