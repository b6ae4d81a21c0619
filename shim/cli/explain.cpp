#include "cli/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/duration.h"
#include "base/json.h"
#include "base/text.h"

namespace rankshim::explain {
namespace {

/// Facts that belong to the topology of either kind; the others concern only torchrun and are visible in the
/// command.
constexpr std::array<Fact, 14> shown_facts = {
    Fact::nnodes, Fact::node_rank,  Fact::nproc_per_node, Fact::master_addr,     Fact::master_port,
    Fact::run_id, Fact::attempt,    Fact::rdzv_backend,   Fact::rdzv_endpoint,   Fact::rdzv_id,
    Fact::rank,   Fact::world_size, Fact::local_rank,     Fact::local_world_size};

std::string_view granularity_name(const Topology& topology) {
  return topology.is<CreatedProcess>() ? "process" : "node";
}

std::string waiting(const Job& job, const Settings& settings) {
  const auto& [topology, choice] = job;
  if (choice.wait == Until::none && !choice.links) return "nothing";
  const Master& master = *topology.master();
  const std::string limit = format_time(*settings.time(Option::wait_timeout));
  if (choice.links)
    return fmt::format("all {} nodes, which meet at {}, at most {}", *topology.nodes(), master.text(), limit);
  if (choice.wait == Until::name) return fmt::format("the name {}, at most {}", master.host, limit);
  return fmt::format("{} to answer, at most {}", master.text(), limit);
}

json::Object json_environment(const EnvironmentChange& change) {
  json::Object set;
  for (const auto& [name, value] : change.set) set.text(name, value);
  json::Object object;
  object.object("set", set).texts("unset", change.unset);
  return object;
}

json::Object json_waiting(const Job& job, const Settings& settings) {
  const auto& [topology, choice] = job;
  json::Object object;
  if (choice.wait == Until::none && !choice.links) {
    object.text("for", "nothing");
    return object;
  }
  object.text("for", choice.links ? "nodes" : choice.wait == Until::name ? "name" : "port");
  object.text("host", topology.master()->host);
  if (choice.links || choice.wait == Until::port) object.number("port", topology.master()->port);
  object.seconds("timeout_seconds", *settings.time(Option::wait_timeout));
  return object;
}

/// What a job of several nodes would have to set, if nothing shows that there is one.
std::string needs(const Topology& topology, const LaunchPlan& plan) {
  const auto& nodes = topology.facts[Fact::nnodes];
  if (!topology.is<LoneNode>() || !nodes || nodes->origin != Origin::fallback || !topology.warnings.empty())
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

void redact(Job& job, LaunchPlan& plan, Redactor& redactor) {
  for (const Fact fact : shown_facts) {
    if (auto& value = job.topology.facts[fact]) value->text = redactor.whole(value->text);
  }
  for (auto& [fact, value] : job.topology.unused) value.text = redactor.whole(value.text);
  for (auto& [name, value] : plan.environment.set) value = redactor.whole(value);
  plan.argv = redactor.words(std::move(plan.argv));
  for (WorkerPlan& worker : plan.workers) {
    worker.argv = redactor.words(std::move(worker.argv));
    for (auto& [name, value] : worker.environment) value = redactor.whole(value);
  }
  job.choice.missing = redactor.whole(job.choice.missing);
}

std::string as_text(const Job& job, const LaunchPlan& plan, const Settings& settings) {
  const auto& [topology, choice] = job;
  std::string out = fmt::format("platform     {}\ngranularity  {}\n", printable(topology.platform),
                                granularity_name(topology));
  if (!topology.also_matched.empty()) {
    out += "also matched ";
    for (const std::string& other : topology.also_matched)
      out += (&other == &topology.also_matched.front() ? "" : ", ") + printable(other);
    out += '\n';
  }
  out += '\n';
  std::size_t widest = 0;
  const auto text_of = [&](Fact fact) { return printable(topology.facts.text(fact)); };
  for (const Fact fact : shown_facts) widest = std::max(widest, text_of(fact).size());
  for (const Fact fact : shown_facts) {
    if (const auto& value = topology.facts[fact])
      out += fmt::format("  {:<16}  {:<{}}  {}\n", name(fact), text_of(fact), widest,
                         printable(value->source()));
  }
  if (!topology.unused.empty()) out += "not used\n";
  for (const auto& [fact, value] : topology.unused)
    out += fmt::format("  {:<16}  {:<{}}  {}\n", name(fact), printable(value.text), widest,
                       printable(value.source()));
  out += fmt::format("\nwaits for    {}\n", printable(waiting(job, settings)));
  if (choice.launches()) out += fmt::format("launcher     {}\n", choice.launcher_name());
  if (const auto* filled = choice.as<FilledLauncher>())
    out += fmt::format("launcher     its own; {} fills in what the command leaves out\n",
                       printable(filled->file));

  std::size_t widest_name = 0;
  for (const auto& [name, value] : plan.environment.set) widest_name = std::max(widest_name, name.size());
  if (plan.environment.set.empty() && plan.environment.unset.empty()) {
    out += "environment  unchanged\n";
  } else {
    out += "environment\n";
    for (const auto& [name, value] : plan.environment.set) {
      out += fmt::format("  set    {:<{}}  {}\n", name, widest_name, printable(shell_quote(value)));
    }
    for (const std::string& name : plan.environment.unset)
      out += fmt::format("  unset  {}\n", printable(name));
  }
  if (!plan.argv.empty()) out += fmt::format("command\n  {}\n", printable(shell_quote(plan.argv)));
  if (!plan.workers.empty()) out += "workers\n";
  for (const WorkerPlan& worker : plan.workers) {
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
  json::Object facts;
  for (const Fact fact : shown_facts) {
    if (const auto& value = topology.facts[fact])
      facts.object(name(fact), json::Object().text("value", value->text).text("source", value->source()));
  }
  std::vector<std::string> warnings = topology.warnings;
  warnings.insert(warnings.end(), choice.warnings.begin(), choice.warnings.end());
  if (!choice.missing.empty()) warnings.push_back(choice.missing);
  json::Object object;
  object.text("platform", topology.platform);
  if (!topology.also_matched.empty()) object.texts("also_matched", topology.also_matched);
  object.text("granularity", granularity_name(topology)).object("topology", facts);
  std::vector<json::Object> unused;
  unused.reserve(topology.unused.size());
  for (const auto& [fact, value] : topology.unused) {
    unused.push_back(std::move(
        json::Object().text("fact", name(fact)).text("value", value.text).text("source", value.source())));
  }
  if (!unused.empty()) object.objects("unused", unused);
  object.object("wait", json_waiting(job, settings));
  object.object("environment", json_environment(plan.environment));
  object.text("launcher", choice.launcher_name()).texts("command", plan.argv);
  if (const auto* filled = choice.as<FilledLauncher>()) object.text("filled_in_by", filled->file);
  std::vector<json::Object> workers;
  for (const WorkerPlan& worker : plan.workers) {
    json::Object own;
    for (const auto& [name, value] : worker.environment) own.text(name, value);
    workers.emplace_back();
    workers.back().object("environment", own).texts("command", worker.argv);
    if (!worker.near.text.empty()) workers.back().text("bound", worker.near.text);
  }
  if (!workers.empty()) object.objects("workers", workers);
  return object.texts("warnings", warnings).lines();
}

std::string as_json(const Faults& faults) {
  std::vector<json::Object> errors;
  for (const Fault& fault : faults)
    errors.push_back(std::move(
        json::Object().text("what", fault.what).texts("names", fault.names).text("fix", fault.fix)));
  return json::Object().objects("errors", errors).str() + "\n";
}

std::string environment(const EnvironmentChange& change, std::string_view format) {
  if (format == "json") return json_environment(change).str() + "\n";
  std::string out;
  if (format == "sh") {
    for (const std::string& name : change.unset)
      if (is_shell_name(name)) out += fmt::format("unset {}\n", name);
  }
  for (const auto& [name, value] : change.set) {
    if (!is_shell_name(name)) continue;
    const std::string quoted = shell_quote(value);
    if (format == "sh") {
      out += fmt::format("export {}={}\n", name, quoted);
    } else {  // readers of .env files agree only on plain words and on double quotes
      out += fmt::format("{}={}\n", name, quoted == value ? value : json::quote(value));
    }
  }
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

std::string profile_text(std::string_view document) {
  std::string out;
  while (!document.empty()) {
    std::string_view line = take_line(document);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out += printable(line) + "\n";
  }
  return out;
}

}  // namespace rankshim::explain
