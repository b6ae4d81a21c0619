#include <unistd.h>

#include <exception>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "base/log.h"
#include "cli/subcommands.h"
#include "loop/loop.h"
#include "node/node.h"
#include "report/exit_report.h"
#include "report/redact.h"
#include "run/run.h"
#include "settings/settings.h"
#include "supervise/kernel.h"
#include "supervise/signals.h"

namespace rankshim {
namespace {

void set_log(const Settings& settings) {
  log::configure(settings.text(Option::log_level), settings.text(Option::log_format) == "json",
                 settings.flag(Option::log_time));
}

bool runs_job(Subcommand subcommand) {
  return subcommand == Subcommand::run || subcommand == Subcommand::wait ||
         subcommand == Subcommand::preflight;
}

int main(int argc, char** argv) {
  const Node node(Environment::from(environ));
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  auto read = read_settings(arguments, node);
  if (auto* rejected = std::get_if<Rejected>(&read)) {
    const Invocation& understood = rejected->invocation;
    Redactor redactor(node.environment());
    rejected->faults = redacted(std::move(rejected->faults), redactor);
    set_log(understood.settings);
    log::context().exit_code = rejected->exit_code;
    if (arguments.empty() && rejected->exit_code == exit_code::usage &&
        understood.settings.text(Option::log_format) != "json") {
      cli::print_error(short_help());
    } else {
      cli::report(rejected->faults, understood.settings.text(Option::format) == "json");
    }
    if (understood.subcommand == Subcommand::env &&
        cli::print(fmt::format("exit {}\n", rejected->exit_code)) != exit_code::ok)
      return exit_code::system;
    return runs_job(understood.subcommand) ? conclude_rejected(*rejected, node) : rejected->exit_code;
  }
  const Invocation& invocation = std::get<Invocation>(read);
  set_log(invocation.settings);
  // All signals were blocked at the very start, for the subcommands that supervise.
  if (!runs_job(invocation.subcommand))
    supervise::kernel::set_signal_mask(supervise::inherited_mask(), nullptr);
  switch (invocation.subcommand) {
    case Subcommand::run:
    case Subcommand::wait:
    case Subcommand::preflight:
      return run_job(invocation, node);
    case Subcommand::explain:
      return cli::explain_job(invocation, node);
    case Subcommand::env:
      return cli::print_environment(invocation, node);
    case Subcommand::platforms:
      return cli::print_platforms(invocation, node);
    case Subcommand::install:
      return cli::install_binary(invocation.arguments.front());
    case Subcommand::doctor:
      return cli::run_doctor(invocation, node);
    case Subcommand::demo:
      return cli::start_demo(invocation.settings, node);
    case Subcommand::status:
      return cli::print_status(invocation.settings, node);
    case Subcommand::help:
      return cli::print(
          help_text(invocation.arguments.empty() ? std::string_view() : invocation.arguments[0]));
    case Subcommand::version:
      return cli::print("rankshim " RANKSHIM_VERSION "\n");
    case Subcommand::licenses:
      return cli::print(cli::licenses());
  }
  return exit_code::usage;
}

}  // namespace
}  // namespace rankshim

int main(int argc, char** argv) {
  // What the system refuses, before the command runs and after its end. (While it runs, everything is caught
  // where it can go on: supervise/.)
  try {
    return rankshim::main(argc, argv);
  } catch (const std::bad_alloc&) {
    rankshim::cli::print_error(
        "rankshim: error: the system refused memory: raise the limit (ulimit -v, or the container's "
        "limit) [R40]\n");
  } catch (const std::exception& error) {
    rankshim::log::error("the system refused a resource that supervising a process needs: {}{}",
                         rankshim::loop::reason(error), rankshim::reference(rankshim::Anchor::system));
  }
  return rankshim::exit_code::system;
}
