#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/fault.h"
#include "base/files.h"
#include "base/log.h"
#include "cli/subcommands.h"
#include "plan/launch.h"

namespace rankshim::cli {
namespace {

constexpr EmbeddedFile demo[] = {
#include "demo.inc"
};

}  // namespace

int start_demo(const Settings& settings, const Node& node) {
  std::error_code error;
  std::string own = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    log::error("cannot read /proc/self/exe: {}{}", error.message(), reference(Anchor::system));
    return exit_code::system;
  }
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
