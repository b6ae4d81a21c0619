#include <unistd.h>

#include <exception>
#include <new>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "base/log.h"
#include "cli/subcommands.h"
#include "loop/loop.h"
#include "node/host.h"
#include "report/exit_report.h"
#include "report/redact.h"
#include "run/run.h"
#include "settings/settings.h"
#include "supervise/kernel.h"
#include "supervise/signals.h"

namespace rankshim {
namespace {

using settings::Invocation;
using settings::Option;

int main(int argc, char** argv) {
  const node::Host host(node::Environment::from(environ));
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  auto read = settings::read_settings(arguments, host);
  auto* const rejected = std::get_if<settings::Rejected>(&read);
  const Invocation& invocation = rejected != nullptr ? rejected->invocation : std::get<Invocation>(read);
  const settings::Settings& settings = invocation.settings;
  const bool logs_json = settings.text(Option::log_format) == "json";
  log::configure(settings.text(Option::log_level), logs_json, settings.flag(Option::log_time));
  using enum settings::Subcommand;
  const settings::Subcommand asked = invocation.subcommand;
  const bool runs_job = asked == run || asked == wait || asked == preflight;
  if (rejected != nullptr) {
    report::Redactor redactor(host.environment());
    rejected->faults = report::redacted(std::move(rejected->faults), redactor);
    int code = rejected->exit_code;
    log::context().exit_code = code;
    if (runs_job && code != exit_code::system) run::tell_rejection(*rejected, host);
    // Warnings about files that cannot be written come first, so that the log ends with what is wrong.
    const int concluded = runs_job ? report::conclude_rejected(*rejected, host) : code;
    if (arguments.empty() && code == exit_code::usage && !logs_json) {
      log::write_what_fits(STDERR_FILENO, settings::short_help());
    } else {
      code = cli::report(rejected->faults, invocation, code);
    }
    return runs_job ? concluded : code;
  }
  // All signals were blocked at the very start, for the subcommands that supervise.
  if (!runs_job) supervise::kernel::set_signal_mask(supervise::inherited_mask(), nullptr);
  switch (asked) {
    case run:
    case wait:
    case preflight:
      return run::run_job(std::get<Invocation>(std::move(read)), host);
    case explain:
      return cli::explain_job(invocation, host);
    case env:
      return cli::print_environment(invocation, host);
    case platforms:
      return cli::print_platforms(invocation, host);
    case install:
      return cli::install_binary(invocation.arguments.front());
    case doctor:
      return cli::run_doctor(invocation, host);
    case demo:
      return cli::start_demo(settings, host);
    case status:
      return cli::print_status(invocation, host);
    case help:
      return cli::print(settings::help_text(invocation.arguments.empty() ? "" : invocation.arguments[0]));
    case version:
      return cli::print("rankshim " RANKSHIM_VERSION "\n");
    case licenses:
      return cli::print(cli::licenses());
  }
  return exit_code::usage;
}

}  // namespace
}  // namespace rankshim

int main(int argc, char** argv) {
  // Catches what the system refuses before the command runs and after its end. (While it runs, exceptions are
  // caught where rankshim can go on: supervise/.)
  try {
    rankshim::loop::reserve_memory();
    return rankshim::main(argc, argv);
  } catch (const std::bad_alloc&) {
    rankshim::log::write_what_fits(
        STDERR_FILENO,
        "rankshim: error: the system refused memory: raise the limit (ulimit -v, or the container's "
        "limit) [R40]\n");
  } catch (const std::exception& error) {
    rankshim::log::error("the system refused a resource that supervising a process needs: {}{}",
                         rankshim::loop::reason(error), rankshim::reference(rankshim::ErrorCode::system));
  }
  return rankshim::exit_code::system;
}
