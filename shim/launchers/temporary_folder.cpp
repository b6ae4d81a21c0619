#include "launchers/temporary_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>

#include "base/log.h"
#include "node/private_folder.h"

namespace rankshim::launchers {
namespace {

using node::Host;

constexpr const char* in_memory = "/dev/shm";

constexpr EmbeddedFile modules[] = {
#include "python_site.inc"
};
static_assert(modules[0].name == "sitecustomize");

/// The text as a literal for Python 2 and 3. Bytes that are not plain ASCII are escaped, in the way in which
/// torchrun reads them.
std::string python_literal(std::string_view text) {
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  std::string literal = "\"";
  if (std::ranges::all_of(text, is_plain)) return literal.append(text).append("\"");
  for (const char c : text)
    literal += is_plain(c) ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return literal + "\"";
}

/// The last line of sitecustomize.py, which calls the rest of it.
std::string call_of(const PythonSite& site) {
  std::string job = site.job ? "{" : "None";
  for (const auto& [name, value] : site.job.value_or(node::Variables{}))
    job += python_literal(name) + ": " + python_literal(value) + ", ";
  if (site.job) job += "}";
  const auto truth = [](bool value) { return value ? "True" : "False"; };
  std::string ignored;
  for (int signal = 1; signal <= last_signal; ++signal)
    if ((site.ignored & bit(signal)) != 0) ignored += fmt::format("{}, ", signal);
  return fmt::format("\n\nserve({}, {}, {}, {}, {}, ({}), {})\n", truth(site.had_path), job,
                     python_literal(site.master), truth(site.records), getpid(), ignored, site.exit_after);
}

/// Creates a file, regardless of the umask. If rankshim runs as root, the command's processes may belong to
/// another user (gosu, su), and may read the file if it is `shared`.
bool write_new_file(const std::string& path, std::initializer_list<std::string_view> parts, bool shared) {
  const bool for_others = shared && geteuid() == 0;
  const UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  const auto is_written = [&](std::string_view part) {
    errno = ENOSPC;  // if only part of it was written
    return write(file.number(), part.data(), part.size()) == static_cast<ssize_t>(part.size());
  };
  return file.number() >= 0 && std::ranges::all_of(parts, is_written) &&
         (!for_others ||
          (fchmod(file.number(), 0644) == 0 && chmod(path.substr(0, path.rfind('/')).c_str(), 0755) == 0));
}

std::string file_in(const std::string& folder, const EmbeddedFile& module) {
  return fmt::format("{}/{}.py", folder, module.name);
}

bool write_site(const std::string& folder, const PythonSite& site) {
  // Others must not read a rendezvous' configuration, which may contain a password.
  const auto is_private = [](const auto& entry) {
    return entry.first == "PET_RDZV_CONF" && entry.second != "is_host=true" &&
           entry.second != "is_host=false";
  };
  const bool shared = site.job && std::ranges::none_of(*site.job, is_private);
  return std::ranges::all_of(modules, [&](const EmbeddedFile& module) {
    const bool is_called = &module == modules;
    return write_new_file(file_in(folder, module), {module.text, is_called ? call_of(site) : ""}, shared);
  });
}

std::string parent_of(const Host& host, bool launches) {
  const std::string_view usual = launches ? "/tmp" : in_memory;
  std::string_view chosen = host.environment().get("TMPDIR").value_or(usual);
  while (chosen.size() > 1 && chosen.ends_with('/')) chosen.remove_suffix(1);
  return std::string(chosen.starts_with('/') ? chosen : usual);
}

}  // namespace

std::string temporary_folder_template(const Launcher& launcher, const Host& host) {
  return parent_of(host, launcher.launches()) + "/rankshim-XXXXXX";
}

TemporaryFolder::TemporaryFolder(const LaunchChoice& choice, const std::optional<PythonSite>& site,
                                 const Host& host) {
  const bool launches = choice.launcher->launches();
  const std::string hosts = choice.launcher->hostfile();
  if (!(launches && choice.log_dir.empty()) && !site && hosts.empty()) return;
  const std::string wanted = parent_of(host, launches);
  node::PrivateFolder folder =
      node::make_private_folder(node::others_can_replace_in(wanted) ? "/tmp" : wanted, host.host_name());
  if (folder.path.empty() && wanted == in_memory)
    folder = node::make_private_folder("/tmp", host.host_name());
  own_.path = std::move(folder.path);
  lock_ = std::move(folder.lock);
  const bool made = !own_.path.empty();
  own_.has_site = made && site && write_site(own_.path, *site);
  const bool written =
      made && (!site || own_.has_site) && (hosts.empty() || write_new_file(own_.hostfile(), {hosts}, true));
  if (!written)
    log::warn("cannot write in {} ({}): {}; set TMPDIR", wanted, std::strerror(errno),
              choice.launcher->lost_without_folder());
}

bool TemporaryFolder::remove_if_unused() {
  if (own_.path.empty()) return true;
  for (const EmbeddedFile& module : modules) unlink(file_in(own_.path, module).c_str());
  if (rmdir(own_.path.c_str()) == 0) own_.path.clear();
  return own_.path.empty();
}

TemporaryFolder::~TemporaryFolder() {
  if (remove_if_unused()) return;
  std::error_code error;
  std::filesystem::remove_all(own_.path, error);
  if (error) log::warn("the temporary folder {} cannot be removed: {}", own_.path, error.message());
}

}  // namespace rankshim::launchers
