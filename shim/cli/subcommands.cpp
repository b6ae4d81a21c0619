#include "cli/subcommands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <ranges>
#include <variant>

#include "base/duration.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "launchers/by_name/named_launcher.h"
#include "launchers/choose.h"
#include "platform/recognise.h"
#include "run/plan.h"
#include "run/status.h"

namespace rankshim::cli::explain {
namespace {

using launchers::Job;
using launchers::LaunchPlan;
using node::Host;
using plan::EnvironmentChange;
using settings::Invocation;
using settings::Option;
using settings::Settings;

/// All facts except those that concern only torchrun, which are visible in the command.
auto shown_facts() {
  return all_facts |
         std::views::filter([](Fact fact) { return fact != Fact::rdzv_conf && fact != Fact::max_restarts; });
}

std::string_view granularity_name(const topology::Topology& topology) {
  return topology.is<topology::CreatedProcess>() ? "process" : "node";
}

std::string waiting(const Job& job, const Settings& settings) {
  const auto& [topology, choice] = job;
  if (choice.wait == wait::Until::none && !choice.links) return "nothing";
  const topology::Master& master = *topology.master();
  const std::string limit = format_time(*settings.time(Option::wait_timeout));
  const unsigned spares = launchers::number_of_spares(settings);
  const std::string training =
      spares != 0 ? fmt::format(", of which {} train", *topology.nodes() - spares) : "";
  if (choice.links)
    return fmt::format("all {} nodes{}, which meet at {}, at most {}", *topology.nodes(), training,
                       master.text(), limit);
  if (choice.wait == wait::Until::name) return fmt::format("the name {}, at most {}", master.host, limit);
  return fmt::format("{} to answer, at most {}", master.text(), limit);
}

json::Object json_waiting(const Job& job, const Settings& settings) {
  const auto& [topology, choice] = job;
  if (choice.wait == wait::Until::none && !choice.links) return json::Object().text("for", "nothing");
  json::Object object;
  const std::string_view of_master = choice.wait == wait::Until::name ? "name" : "port";
  object.text("for", choice.links ? "nodes" : of_master);
  object.text("host", topology.master()->host);
  if (choice.links || choice.wait == wait::Until::port) object.number("port", topology.master()->port);
  return object.seconds("timeout_seconds", *settings.time(Option::wait_timeout));
}

json::Object json_variables(const node::Variables& variables) {
  json::Object object;
  for (const auto& [name, value] : variables) object.text(name, value);
  return object;
}

json::Object json_environment(const EnvironmentChange& change) {
  return json::Object().object("set", json_variables(change.set)).texts("unset", change.unset);
}

/// The part of a value that some reader of .env files changes even in single quotes; empty if there is none.
std::string_view unquotable(std::string_view value) {
  struct Part {
    std::string_view text, name;
  };
  constexpr auto parts = std::to_array<Part>({
      {"'", "a single quote"},
      {"\n", "a line end"},  // docker's --env-file reads line by line: the rest would be another variable
      {"\r", "a carriage return"},
      // python-dotenv (parser.py, variables.py) replaces these inside any quotes.
      {"\\\\", "two backslashes"},
      {"${", "${"},
  });
  if (value.ends_with('\\'))
    return "a backslash at its end";  // for python-dotenv and Node's it escapes the closing quote
  const auto has = [&](const Part& part) { return value.find(part.text) != std::string_view::npos; };
  const auto* const found = std::ranges::find_if(parts, has);
  return found == parts.end() ? std::string_view() : found->name;
}

std::vector<std::string> warnings_of(const Job& job) {
  std::vector<std::string> warnings = job.topology.warnings;
  warnings.insert(warnings.end(), job.choice.warnings.begin(), job.choice.warnings.end());
  if (!job.choice.missing.empty()) warnings.push_back(job.choice.missing);
  return warnings;
}

/// What a job of several nodes would have to set, if nothing shows that there are several.
std::string needs(const topology::Topology& topology, const LaunchPlan& plan) {
  const auto& nodes = topology.facts[Fact::nnodes];
  if (!topology.is<topology::LoneNode>() || !nodes || nodes->origin != Origin::fallback ||
      !topology.warnings.empty())
    return {};
  std::string out =
      "\nNo job was found: nothing here names other nodes, so this node would train alone.\n"
      "  several nodes  give each --nnodes, --node-rank and --master-addr, or the variables\n"
      "                 NNODES, NODE_RANK and MASTER_ADDR\n"
      "  a platform     rankshim platforms lists those that are recognised\n";
  if (plan.argv.empty()) out += "  a command      rankshim explain -- train.py shows what would be started\n";
  return out;
}

}  // namespace

void redact(Job& job, LaunchPlan& plan, report::Redactor& redactor) {
  for (const Fact fact : shown_facts()) {
    if (auto& value = job.topology.facts[fact]) value->text = redactor.whole(value->text);
  }
  for (auto& [fact, value] : job.topology.unused) value.text = redactor.whole(value.text);
  for (auto& [name, value] : plan.environment.set) value = redactor.whole(value);
  plan.argv = redactor.words(std::move(plan.argv));
  for (launchers::WorkerPlan& worker : plan.workers) {
    worker.argv = redactor.words(std::move(worker.argv));
    for (auto& [name, value] : worker.environment) value = redactor.whole(value);
  }
  job.choice.missing = redactor.whole(job.choice.missing);
}

std::string as_text(const Job& job, const LaunchPlan& plan, const Settings& settings) {
  const auto& [topology, choice] = job;
  std::string out = fmt::format("platform     {}\ngranularity  {}\n", printable(topology.platform.name()),
                                granularity_name(topology));
  if (!topology.also_matched.empty())
    out += fmt::format("also matched {}\n", printable(joined(topology.also_matched)));
  out += '\n';
  std::size_t widest = 0, widest_name = 0;
  for (const Fact fact : shown_facts())
    widest = std::max(widest, printable(topology.facts.text(fact)).size());
  const auto add_fact = [&](Fact fact, const Value& value) {
    out += fmt::format("  {:<16}  {:<{}}  {}\n", name(fact), printable(value.text), widest,
                       printable(value.source()));
  };
  for (const Fact fact : shown_facts())
    if (const auto& value = topology.facts[fact]) add_fact(fact, *value);
  if (!topology.unused.empty()) out += "not used\n";
  for (const auto& [fact, value] : topology.unused) add_fact(fact, value);
  out += fmt::format("\nwaits for    {}\n", printable(waiting(job, settings)));
  if (choice.launcher->launches()) out += fmt::format("launcher     {}\n", choice.launcher->name());
  if (const std::string_view file = choice.launcher->described_by(); !file.empty())
    out += fmt::format("launcher     its own; {} fills in what the command leaves out\n", printable(file));

  const auto& [set, unset] = plan.environment;
  out += set.empty() && unset.empty() ? "environment  unchanged\n" : "environment\n";
  for (const auto& [name, value] : set) widest_name = std::max(widest_name, name.size());
  for (const auto& [name, value] : set)
    out += fmt::format("  set    {:<{}}  {}\n", name, widest_name, printable(shell_quote(value)));
  for (const std::string& name : unset) out += fmt::format("  unset  {}\n", printable(name));
  if (!plan.argv.empty()) out += fmt::format("command\n  {}\n", printable(shell_quote(plan.argv)));
  if (!plan.workers.empty()) out += "workers\n";
  for (const launchers::WorkerPlan& worker : plan.workers) {
    out += ' ';
    for (const auto& [name, value] : worker.environment)
      out += fmt::format(" {}={}", name, printable(shell_quote(value)));
    out += fmt::format(" {}\n", printable(shell_quote(worker.argv)));
    if (!worker.near.text.empty()) out += fmt::format("    {}\n", printable(worker.near.text));
  }
  return out + needs(topology, plan);
}

std::string as_json(const Job& job, const LaunchPlan& plan, const Settings& settings) {
  const auto& [topology, choice] = job;
  json::Object facts, object;
  for (const Fact fact : shown_facts())
    if (const auto& value = topology.facts[fact])
      facts.object(name(fact), json::Object().text("value", value->text).text("source", value->source()));
  std::vector<json::Object> unused, workers;
  for (const auto& [fact, value] : topology.unused)
    unused.push_back(
        json::Object().text("fact", name(fact)).text("value", value.text).text("source", value.source()));
  for (const auto& [environment, argv, near] : plan.workers) {
    workers.push_back(
        json::Object().object("environment", json_variables(environment)).texts("command", argv));
    if (!near.text.empty()) workers.back().text("bound", near.text);
  }
  object.text("platform", topology.platform.name());
  if (!topology.also_matched.empty()) object.texts("also_matched", topology.also_matched);
  object.text("granularity", granularity_name(topology)).object("topology", facts);
  if (!unused.empty()) object.objects("unused", unused);
  object.object("wait", json_waiting(job, settings));
  object.object("environment", json_environment(plan.environment));
  object.text("launcher", choice.launcher->name()).texts("command", plan.argv);
  if (const std::string_view file = choice.launcher->described_by(); !file.empty())
    object.text("filled_in_by", file);
  if (!workers.empty()) object.objects("workers", workers);
  return object.texts("warnings", warnings_of(job)).lines();
}

std::string as_json(const Faults& faults) {
  std::vector<json::Object> errors;
  for (const Fault& fault : faults)
    errors.push_back(json::Object()
                         .text("code", code_of(fault.error_code))
                         .text("what", fault.what)
                         .texts("names", fault.names)
                         .text("fix", fault.fix));
  return json::Object().objects("errors", errors).str() + "\n";
}

std::string environment_as_json(const EnvironmentChange& change) {
  return json_environment(change).str() + "\n";
}

std::string environment_for_shell(const EnvironmentChange& change) {
  std::string out;
  for (const std::string& name : change.unset)
    if (is_shell_name(name)) out += fmt::format("unset {}\n", name);
  for (const auto& [name, value] : change.set)
    if (is_shell_name(name)) out += fmt::format("export {}={}\n", name, shell_quote(value));
  return out;
}

Outcome<std::string> environment_file(const EnvironmentChange& change) {
  std::string out;
  Faults faults;
  for (const auto& [name, value] : change.set) {
    if (!is_shell_name(name)) continue;
    if (const std::string_view what = unquotable(value); !what.empty())
      faults.push_back({ErrorCode::value,
                        fmt::format("{}={} has {}, which readers of a .env file understand differently", name,
                                    in_quotes(value), what),
                        {name},
                        "change the value, or use --format sh or json"});
    out += fmt::format("{}={}\n", name, shell_quote(value));
  }
  if (!faults.empty()) return faults;
  return out;
}

std::string profile_list(std::span<const platform::Profile> profiles) {
  std::size_t widest = 0;
  for (const auto& profile : profiles) widest = std::max(widest, printable(profile.name).size());
  std::string out;
  for (const auto& profile : profiles) {
    const std::string name = printable(profile.name);
    out += fmt::format("{:<{}}  {}{}\n", name, widest, printable(profile.title),
                       profile.opt_in ? fmt::format(" (only by --platform {})", name) : "");
  }
  return out;
}

std::string safe_lines(std::string_view document) {
  std::string out;
  while (!document.empty()) {
    std::string_view line = next_line(document);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out += printable(line) + "\n";
  }
  return out;
}

}  // namespace rankshim::cli::explain

namespace rankshim::cli {
namespace {

using launchers::Job;
using launchers::LaunchPlan;
using node::Host;
using plan::EnvironmentChange;
using settings::Invocation;
using settings::Option;
using settings::Settings;

constexpr EmbeddedFile demo[] = {
#include "demo.inc"
};

}  // namespace

int print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    pollfd ready{STDOUT_FILENO, POLLOUT, 0};
    if (written < 0 && errno != EINTR && (errno != EAGAIN || poll(&ready, 1, -1) < 0)) {
      log::error("stdout cannot be written: {}{}", std::strerror(errno), reference(ErrorCode::not_written));
      return exit_code::system;
    }
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return exit_code::ok;
}

int report(const Faults& faults, const Invocation& invocation, int code) {
  for (const Fault& fault : faults) log::error("{}", to_line(fault));
  const std::string_view format = invocation.settings.text(Option::format);
  const bool evaluated = invocation.subcommand == settings::Subcommand::env && format != "dotenv";
  std::string text;
  if (format == "json")
    text = explain::as_json(faults);
  else if (evaluated)
    text = fmt::format("exit {}\n", code);
  return print(text) == exit_code::ok ? code : exit_code::system;
}

std::string licenses() {
  constexpr EmbeddedFile files[] = {
#include "licenses.inc"
  };
  return joined(files | std::views::transform(&EmbeddedFile::text), "\n") + "\n";
}

int explain_job(const Invocation& invocation, const Host& host) {
  const bool json = invocation.settings.text(Option::format) == "json";
  auto resolved = run::resolve_job(invocation.settings, invocation.arguments, host);
  if (const auto* faults = std::get_if<Faults>(&resolved)) return report(*faults, invocation);
  Job& job = std::get<Job>(resolved);
  LaunchPlan plan =
      run::plan_shown_launch(job.choice, {job.topology, invocation.settings, invocation.arguments, host});
  node::Environment known = plan.environment.apply(host.environment());
  for (const launchers::WorkerPlan& worker : plan.workers)
    for (const auto& [name, value] : worker.environment) known.set(name, value);
  report::Redactor redactor(known);
  explain::redact(job, plan, redactor);
  if (json) return print(explain::as_json(job, plan, invocation.settings));
  const int code = print(explain::as_text(job, plan, invocation.settings));
  for (const std::string& warning : explain::warnings_of(job)) log::warn("{}", warning);
  if (!job.choice.note.empty()) log::info("{}", job.choice.note);
  return code;
}

int print_environment(const Invocation& invocation, const Host& host) {
  const auto resolved = run::resolve_job(invocation.settings, {}, host);
  if (const auto* faults = std::get_if<Faults>(&resolved)) return report(*faults, invocation);
  const topology::Topology& topology = std::get<Job>(resolved).topology;
  for (const std::string& warning : topology.warnings) log::warn("{}", warning);
  const auto& pet = invocation.settings[Option::export_pet];
  const bool with_pet = pet->from_user() && invocation.settings.flag(Option::export_pet);
  const EnvironmentChange change = plan::environment_change(topology, host, with_pet);
  const std::string_view format = invocation.settings.text(Option::format);
  if (format == "json") return print(explain::environment_as_json(change));
  if (format == "sh") return print(explain::environment_for_shell(change));
  const auto file = explain::environment_file(change);
  if (const auto* faults = std::get_if<Faults>(&file)) return report(*faults, invocation);
  return print(std::get<std::string>(file));
}

int print_platforms(const Invocation& invocation, const Host& host) {
  const auto& arguments = invocation.arguments;
  if (!arguments.empty() && arguments[0] == "check") {
    const std::string& path = arguments[1];
    const bool of_launcher = path.ends_with(platform::launcher_extension);
    Faults faults = of_launcher ? Faults{} : platform::check_profile(path, host);
    if (of_launcher) launchers::read_launcher_file(path, host, faults);
    if (!faults.empty()) return report(faults, invocation);
    return print(fmt::format("{} is {}\n", in_quotes(path), of_launcher ? "a launcher's file" : "a profile"));
  }
  const auto read = platform::read_profiles(invocation.settings.text(Option::profile), host);
  if (const auto* faults = std::get_if<Faults>(&read)) return report(*faults, invocation);
  const auto& set = std::get<platform::ProfileSet>(read);
  if (arguments.empty()) return print(explain::profile_list(set.profiles));
  const platform::Profile* profile = platform::find(set.profiles, arguments[0]);
  if (profile == nullptr)
    return report({platform::unknown_platform(set.profiles, arguments[0])}, invocation, exit_code::usage);
  return print(explain::safe_lines(profile->document));
}

/// The lines of an answer about stacks.
std::string lines_of(const std::string& answer) {
  std::string text;
  for (std::size_t i = 0; const auto line = json::field(answer, fmt::format("lines.{}", i)); ++i)
    text += *line + "\n";
  return text;
}

/// An answer in the format that --format asks for.
std::string in_format(const std::string& answer, std::string_view format, run::status::Question question) {
  using enum run::status::Question;
  if (question == metrics) return explain::safe_lines(json::field(answer, "metrics").value_or(""));
  if (format == "json") return answer + "\n";
  return question == stacks ? lines_of(answer) : json::as_lines(answer);
}

/// Whether the instance is in the state that `status WANTED` asks for.
bool is_wanted(std::string_view wanted, const std::string& answer) {
  if (wanted == "live") return !answer.empty();
  return wanted == "ready" ? run::status::is_ready(answer) : run::status::is_well(answer);
}

int print_status(const Invocation& invocation, const Host& host) {
  const Settings& settings = invocation.settings;
  const std::string_view wanted =
      invocation.arguments.empty() ? "" : std::string_view(invocation.arguments[0]);
  const std::string_view format = settings.text(Option::format);
  const auto& stacks = settings[Option::stacks];
  auto question = run::status::Question::status;
  if (stacks && stacks->origin == Origin::option && settings.flag(Option::stacks))
    question = run::status::Question::stacks;
  if (question == run::status::Question::stacks && (!wanted.empty() || format == "openmetrics")) {
    log::error("--stacks asks another question than {}; leave one of them out{}",
               wanted.empty() ? "--format openmetrics" : "status " + std::string(wanted),
               reference(ErrorCode::command_line));
    return exit_code::usage;
  }
  if (format == "openmetrics") question = run::status::Question::metrics;
  const std::string answer = run::status::ask(
      run::status::socket_folders(settings.text(Option::run_dir), host.environment()), question);
  if (answer.empty())
    log::error(
        "no rankshim of this container or job answers; check that one is running with the same --run-dir, "
        "and that you are root or its own user");
  else if (print(in_format(answer, format, question)) != exit_code::ok)
    return exit_code::system;
  return is_wanted(wanted, answer) ? exit_code::ok : exit_code::not_well;
}

int install_binary(const std::string& folder) {
  const std::string target = folder + "/rankshim";
  // The copy is renamed when it is complete, so that no process ever sees an incomplete file. Its name is
  // random: one with the pid could clash with an interrupted copy, because the pid is 1 in each container. It
  // is made with sendfile(2), because the standard library's copy would bring 100 kB of locales into the
  // binary.
  std::string temporary = target + ".XXXXXX";
  const UniqueFd from(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  const int to = mkostemp(temporary.data(), O_CLOEXEC);
  ssize_t sent = to < 0 ? -1 : 1;
  while (sent > 0) sent = sendfile(to, from.number(), nullptr, 1 << 20);
  const bool copied = sent == 0 && fchmod(to, 0755) == 0 && close(to) == 0;
  if (copied && std::rename(temporary.c_str(), target.c_str()) == 0)
    return print(fmt::format("{} is rankshim " RANKSHIM_VERSION " now\n", in_quotes(target)));
  const int error = errno;
  unlink(temporary.c_str());
  log::error("cannot create {}: {}{}", target, std::strerror(error), reference(ErrorCode::not_written));
  return exit_code::system;
}

int start_demo(const Settings& settings, const Host& host) {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe");
  // In a virtual environment, which need not be activated, its Python is the one that was meant (PEP 405).
  const std::string folder = own.substr(0, own.rfind('/') + 1);
  const bool of_environment = !settings[Option::python] && host.file(folder + "../pyvenv.cfg");
  const std::string wanted = of_environment ? folder + "python3" : plan::find_interpreter(settings, host);
  const auto found = host.find_program(wanted);
  if (!found) {
    log::error("{} was not found, and the demonstration needs a Python with torch; name it with --python{}",
               wanted, reference(ErrorCode::python));
    return exit_code::configuration;
  }
  const std::string text(demo[0].text);
  execl(found->c_str(), found->c_str(), "-c", text.c_str(), own.c_str(), RANKSHIM_VERSION, nullptr);
  log::error("cannot execute {}: {}", *found, std::strerror(errno));
  return exit_code::not_executable;
}

}  // namespace rankshim::cli
