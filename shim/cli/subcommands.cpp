#include "cli/subcommands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ranges>
#include <variant>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "launchers/by_name/named_launcher.h"
#include "platform/profiles.h"
#include "platform/recognise.h"
#include "run/status.h"

namespace rankshim::cli {
namespace {

constexpr EmbeddedFile demo[] = {
#include "demo.inc"
};

/// Copies the running binary to a file, mode 0755, by a temporary file and a rename, so that no process ever
/// sees an incomplete one. Returns 0 or an errno.
int install(const std::string& target) {
  const Descriptor from(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  if (from.number() < 0) return errno;
  // An unused name. The process number would not do: an interrupted copy may have the same, because in a
  // container it is always 1.
  std::string temporary = target + ".XXXXXX";
  const int to = mkostemp(temporary.data(), O_CLOEXEC);
  if (to < 0) return errno;
  ssize_t sent = 1;
  while (sent > 0) sent = sendfile(to, from.number(), nullptr, 1 << 20);
  const bool copied = sent == 0 && fchmod(to, 0755) == 0;
  const bool closed = close(to) == 0;
  if (copied && closed && std::rename(temporary.c_str(), target.c_str()) == 0) return 0;
  const int error = errno;
  unlink(temporary.c_str());
  return error;
}

}  // namespace

int print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    pollfd ready{STDOUT_FILENO, POLLOUT, 0};
    if (written < 0 && errno != EINTR && (errno != EAGAIN || poll(&ready, 1, -1) < 0)) {
      log::error("stdout cannot be written: {}{}", std::strerror(errno), reference(Anchor::not_written));
      return exit_code::system;
    }
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return exit_code::ok;
}

int report(const Faults& faults, const Invocation& invocation, int code) {
  for (const Fault& fault : faults) log::error("{}", to_line(fault));
  const std::string_view format = invocation.settings.text(Option::format);
  const bool evaluated = invocation.subcommand == Subcommand::env && format != "dotenv";
  const std::string text = format == "json" ? explain::as_json(faults)
                           : evaluated      ? fmt::format("exit {}\n", code)
                                            : std::string();
  return print(text) == exit_code::ok ? code : exit_code::system;
}

std::string licenses() {
  constexpr EmbeddedFile files[] = {
#include "licenses.inc"
  };
  return joined(files | std::views::transform(&EmbeddedFile::text), "\n") + "\n";
}

int print_platforms(const Invocation& invocation, const Node& node) {
  const auto& arguments = invocation.arguments;
  if (!arguments.empty() && arguments[0] == "check") {
    const std::string& path = arguments[1];
    const bool of_launcher = path.ends_with(platform::launcher_extension);
    Faults faults;
    if (of_launcher)
      by_name::read_launcher_file(path, node, faults);
    else
      faults = platform::check_profile(path, node);
    if (!faults.empty()) return report(faults, invocation);
    return print(fmt::format("{} is {}\n", path, of_launcher ? "a launcher's file" : "a profile"));
  }
  const auto read = platform::read_profiles(invocation.settings.text(Option::profile), node);
  if (const auto* faults = std::get_if<Faults>(&read)) return report(*faults, invocation);
  const auto& set = std::get<platform::ProfileSet>(read);
  if (arguments.empty()) return print(explain::profile_list(set.profiles));
  const platform::Profile* profile = platform::find(set.profiles, arguments[0]);
  if (profile == nullptr) {
    std::vector<std::string_view> known;
    for (const auto& one : set.profiles) known.push_back(one.name);
    log::error("no profile is named {}{}; rankshim platforms lists them{}", in_quotes(arguments[0]),
               and_nearest(nearest(arguments[0], known)), reference(Anchor::unknown_platform));
    return exit_code::usage;
  }
  return print(explain::profile_text(profile->document));
}

int print_status(const Settings& settings, const Node& node) {
  const std::string answer =
      status::ask(status::socket_folders(settings.text(Option::run_dir), node.environment()));
  const bool json = settings.text(Option::format) == "json";
  if (answer.empty())
    log::error(
        "no rankshim of this container or job answers; check that one is running, and that it has the same "
        "--run-dir");
  else if (print(json ? answer + "\n" : json::as_lines(answer)) != exit_code::ok)
    return exit_code::system;
  return status::is_well(answer) ? exit_code::ok : exit_code::not_well;
}

int install_binary(const std::string& folder) {
  const std::string target = folder + "/rankshim";
  const int error = install(target);
  if (error == 0) return print(fmt::format("{} is rankshim " RANKSHIM_VERSION " now\n", target));
  log::error("cannot create {}: {}{}", target, std::strerror(error), reference(Anchor::not_written));
  return exit_code::system;
}

int start_demo(const Settings& settings, const Node& node) {
  std::string own = std::filesystem::read_symlink("/proc/self/exe");
  // In a virtual environment, which need not be activated, its Python is the one that was meant (PEP 405).
  const std::string folder = own.substr(0, own.rfind('/') + 1);
  const bool of_environment = !settings[Option::python] && node.file(folder + "../pyvenv.cfg");
  const std::string wanted = of_environment ? folder + "python3" : find_interpreter(settings, node);
  const auto found = node.find_program(wanted);
  if (!found) {
    log::error("{} was not found, and the demonstration needs a Python with torch; name it with --python{}",
               wanted, reference(Anchor::python));
    return exit_code::configuration;
  }
  std::string program = *found;
  std::string option = "-c";
  std::string text(demo[0].text);
  std::string version = RANKSHIM_VERSION;
  const std::array<char*, 6> arguments = {program.data(), option.data(),  text.data(),
                                          own.data(),     version.data(), nullptr};
  execv(program.c_str(), arguments.data());
  log::error("cannot execute {}: {}", program, std::strerror(errno));
  return exit_code::not_executable;
}

}  // namespace rankshim::cli
