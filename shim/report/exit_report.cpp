#include "report/exit_report.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "base/fault.h"
#include "base/json.h"
#include "base/text.h"
#include "outcome/hang.h"
#include "outcome/wording.h"
#include "report/files.h"
#include "report/snapshot.h"
#include "report/wording.h"
#include "supervise/signals.h"
#include "supervise/tree.h"

namespace rankshim::report {
namespace {

using settings::Option;
using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

constexpr int report_version = 1;
constexpr std::size_t longest_verdict = 1024;

/// A time of the monotonic clock as calendar time, by the current difference between the two clocks.
std::string moment(steady_clock::time_point when) {
  return json::moment(system_clock::now() +
                      duration_cast<system_clock::duration>(when - steady_clock::now()));
}

milliseconds between(steady_clock::time_point begin, steady_clock::time_point end) {
  return std::max(milliseconds(0), duration_cast<milliseconds>(end - begin));
}

std::string_view outcome_of(const ExitReport& report) {
  if (report.verdict->failed()) return report.record == nullptr ? "not started" : "failed";
  if (report.verdict->cause == outcome::Cause::stop_requested) return "stopped";
  return report.verdict->code == 0 ? "succeeded" : "failed";
}

void add_end(json::Object& object, std::optional<int> signal, int exit_code) {
  if (signal)
    object.text("signal", signal_name(*signal));
  else
    object.number("exit_code", exit_code);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) lines.push_back(printable(next_line(text)));
  return lines;
}

/// The rank in the job, if it is known or follows from the node's rank.
std::optional<unsigned> rank_of(std::optional<unsigned> rank, unsigned local_rank, const ExitReport& report) {
  if (rank || report.topology == nullptr) return rank;
  if (report.topology->is<topology::LoneNode>()) return local_rank;
  const auto* node = report.topology->as<topology::StaticNode>();
  return node != nullptr ? std::optional(node->first_rank() + local_rank) : rank;
}

json::Object node_json(const ExitReport& report) {
  json::Object node;
  node.text("host", report.host);
  if (report.topology == nullptr) return node;
  const topology::Topology& topology = *report.topology;
  node.text("platform", topology.platform.name());
  if (topology.facts.has(Fact::run_id)) node.text("run_id", topology.facts.text(Fact::run_id));
  if (topology.facts.has(Fact::nnodes)) node.text("nnodes", topology.facts.text(Fact::nnodes));
  if (const auto rank = topology.node_rank()) node.number("node_rank", *rank);
  const auto* member = topology.as<topology::StaticNode>();
  if (member != nullptr && member->member)
    node.number("index", member->member->index).number("members", member->member->nodes);
  return node;
}

json::Object root_json(const ExitReport& report, const RootCause& root) {
  json::Object object;
  object.text("who", name(root.who)).text("host", report.host);
  const topology::Topology* const topology = report.topology;
  const auto* process = topology != nullptr ? topology->as<topology::CreatedProcess>() : nullptr;
  if (topology != nullptr && topology->node_rank()) object.number("node_rank", *topology->node_rank());
  if (root.local_rank) {
    object.number("local_rank", *root.local_rank);
    if (const auto rank = rank_of(root.culprit.rank, *root.local_rank, report)) object.number("rank", *rank);
  } else if (process != nullptr) {  // a worker that the platform started
    object.number("local_rank", process->local_rank).number("rank", process->rank);
  }
  object.number("pid", root.pid);
  add_end(object, root.culprit.signal, root.culprit.code);
  object.flag("out_of_memory", root.culprit.cause == outcome::Cause::out_of_memory);
  object.flag("lost_peer", is_victim(root.culprit.cause));
  if (root.when) object.text("time", moment(*root.when));
  object.text("source", root.source);
  if (root.error != nullptr) {
    object.text("exception", root.error->message);
    object.texts("traceback", lines_of(root.error->traceback));
  }
  return object;
}

std::vector<json::Object> frames_json(const std::vector<outcome::Frame>& frames) {
  std::vector<json::Object> list;
  for (const outcome::Frame& frame : frames)
    list.emplace_back().text("file", frame.file).number("line", frame.line).text("function", frame.function);
  return list;
}

/// "0,2-15".
std::string list_of(const std::vector<outcome::RankRange>& ranges) {
  return joined(
      ranges | std::views::transform([](const outcome::RankRange& range) { return in_words(range); }), ",");
}

json::Object place_json(const outcome::Place& place) {
  json::Object object;
  if (!place.line.file.empty())
    object.text("file", place.line.file)
        .number("line", place.line.line)
        .text("function", place.line.function);
  if (!place.call.empty()) object.text("call", place.call);
  if (place.state != '?') object.text("state", std::string(1, place.state));
  if (!place.kernel.empty()) object.text("kernel", place.kernel);
  if (place.works) object.flag("works", *place.works);
  if (place.polls) object.flag("polls", true);
  if (!place.below.empty()) object.text("below", place.below);
  return object;
}

/// The looks at all workers, if this node has them.
std::vector<outcome::WorkerLook> looks_of(const ExitReport& report) {
  if (!report.details->hang_looks.empty()) return report.details->hang_looks;
  std::vector<outcome::WorkerLook> looks;
  for (const link::Node& node : report.nodes) looks.insert(looks.end(), node.looks.begin(), node.looks.end());
  if (report.nodes.empty())
    for (const outcome::WorkerLook& look : report.details->looks | std::views::values) looks.push_back(look);
  return looks;
}

/// How the job hangs: what all nodes know; and, if this one has the looks, all stacks and who waits for whom.
json::Object hang_json(const outcome::Culprit& culprit, const std::vector<outcome::WorkerLook>& looks) {
  const outcome::Hang& hang = *culprit.hang;
  json::Object object;
  object.text("kind", outcome::name(hang.kind));
  if (const auto waited = hang.stalled ? hang.stalled : hang.timeout)
    object.seconds("seconds", milliseconds(*waited));
  object.text("missing", list_of(culprit.ranks)).text("waiting", list_of(culprit.victims));
  if (!hang.group.empty()) object.text("group", hang.group);
  if (hang.number != 0) object.number("number", static_cast<std::int64_t>(hang.number));
  if (!hang.operation.empty()) object.text("operation", hang.operation);
  if (!hang.other_operation.empty()) object.text("other_operation", hang.other_operation);
  object.object("place", place_json(hang.place)).object("waits_at", place_json(hang.waits_at));
  if (looks.empty()) return object;
  constexpr std::size_t most_stacks = 100;
  std::vector<json::Object> groups, waits;
  for (const outcome::StackGroup& group : outcome::group_stacks(looks) | std::views::take(most_stacks))
    groups.emplace_back()
        .text("ranks", list_of(group.ranks))
        .number("pid", group.look.pid)
        .text("state", std::string(1, group.look.state))
        .objects("stack", frames_json(group.look.stack));
  for (const outcome::Wait& wait : outcome::find_waits(looks) | std::views::take(most_stacks))
    waits.emplace_back()
        .text("ranks", list_of(wait.ranks))
        .text("for", list_of(wait.for_ranks))
        .text("group", wait.group)
        .number("number", static_cast<std::int64_t>(wait.number))
        .text("operation", wait.operation);
  return object.objects("groups", groups).objects("waits", waits);
}

/// How the command itself ended, whatever its workers did.
json::Object command_json(const CommandEnd& command) {
  json::Object object;
  if (!command.name.empty()) object.text("program", command.name);
  add_end(object, command.signal, command.code);
  return object.seconds("seconds", command.ran);
}

/// Who is to blame, if that says more than what failed on this node.
json::Object culprit_json(const outcome::Culprit& culprit) {
  json::Object object;
  object.text("who", "node").text("host", culprit.host).number("node_rank", culprit.node);
  if (culprit.rank) object.number("rank", *culprit.rank);
  const bool has_exited = culprit.cause != outcome::Cause::stop_requested && !is_found(culprit.cause);
  if (has_exited) object.number("exit_code", culprit.code);
  object.text("reason", what_happened(culprit));
  return object;
}

std::vector<json::Object> workers_json(const ExitReport& report) {
  std::vector<json::Object> list;
  for (const supervise::WorkerEnd& worker : report.record->workers.ends) {
    json::Object& object = list.emplace_back();
    object.number("local_rank", worker.local_rank);
    if (const auto rank = rank_of(worker.rank, worker.local_rank, report)) object.number("rank", *rank);
    object.number("pid", worker.pid);
    const bool signalled = WIFSIGNALED(worker.status);
    if (worker.status_known)
      add_end(object, signalled ? std::optional(WTERMSIG(worker.status)) : std::nullopt,
              WEXITSTATUS(worker.status));
    object.text("time", moment(worker.when));
    object.seconds("seconds", between(report.record->started_at, worker.when));
  }
  return list;
}

/// The duration of each phase, by name, with those of a phase that was entered twice added up. torchrun's
/// start lasts until its first worker.
json::Object phases_json(std::vector<Phase> phases, steady_clock::time_point end,
                         const std::optional<steady_clock::time_point>& first_worker_at) {
  phases.push_back({PhaseName::ended, end});
  const auto launch = std::ranges::find(phases, PhaseName::launch, &Phase::name);
  if (first_worker_at && launch != phases.end() && *first_worker_at < (launch + 1)->begin)
    phases.insert(launch + 1, {PhaseName::run, *first_worker_at});
  std::vector<std::pair<PhaseName, milliseconds>> times;
  for (std::size_t at = 0; at + 1 < phases.size(); ++at) {
    auto same = std::ranges::find(times, phases[at].name, &decltype(times)::value_type::first);
    if (same == times.end()) same = times.insert(same, {phases[at].name, milliseconds(0)});
    same->second += between(phases[at].begin, phases[at + 1].begin);
  }
  json::Object object;
  for (const auto& [phase, time] : times) object.seconds(name(phase), time);
  return object;
}

std::vector<json::Object> past_attempts_json(const ExitReport& report) {
  std::vector<json::Object> list;
  for (const PastAttempt& attempt : report.past_attempts) {
    json::Object& object = list.emplace_back();
    object.number("attempt", attempt.number).number("exit_code", attempt.code);
    object.text("verdict", attempt.sentence);
    object.text("started", moment(attempt.phases.front().begin)).text("ended", moment(attempt.end));
    object.object("phases", phases_json(attempt.phases, attempt.end, attempt.first_worker_at));
  }
  return list;
}

/// The resources used by the command and all its descendants that were waited for; for memory, by the largest
/// of them.
json::Object resources_json() {
  json::Object object;
  rusage used{};
  if (getrusage(RUSAGE_CHILDREN, &used) != 0) return object;
  const auto milliseconds_of = [](const timeval& time) {
    return milliseconds(static_cast<std::int64_t>(time.tv_sec) * 1000 + time.tv_usec / 1000);
  };
  object.number("max_rss_bytes", static_cast<std::int64_t>(used.ru_maxrss) * 1024);
  object.seconds("user_seconds", milliseconds_of(used.ru_utime));
  object.seconds("system_seconds", milliseconds_of(used.ru_stime));
  return object;
}

json::Object memory_json(const node::MemoryUsage& memory) {
  json::Object object;
  object.number("oom_kills", static_cast<std::int64_t>(memory.oom_kills));
  if (memory.limit) object.number("limit_bytes", static_cast<std::int64_t>(*memory.limit));
  if (memory.peak) object.number("peak_bytes", static_cast<std::int64_t>(*memory.peak));
  object.flag("oom_group", memory.kills_all);
  return object;
}

/// Whether nothing is known but an exit code that the command chose, so that the container's log has more
/// information.
bool only_a_code(const ExitReport& report) {
  const Verdict& verdict = *report.verdict;
  const supervise::ExitRecord* const record = report.record;
  if (record == nullptr || !verdict.root || verdict.root->culprit.signal) return false;
  if (verdict.root->error != nullptr && !launchers::is_exit(verdict.root->error->message)) return false;
  const bool killed = record->leftovers_killed != 0 || !record->left_behind.empty();
  return !killed && report.details->memory.oom_kills == 0;
}

}  // namespace

std::vector<json::Object> nodes_json(const std::vector<link::Node>& nodes) {
  std::vector<json::Object> list;
  const bool has_spares = std::ranges::any_of(nodes, [](const auto& node) { return node.hello.spares != 0; });
  for (const link::Node& node : nodes) {
    const auto index = static_cast<std::int64_t>(list.size());
    json::Object& object = list.emplace_back();
    if (has_spares) object.number("index", index);
    if (!has_spares) object.number("node_rank", index);
    if (has_spares && node.go.rank) object.number("node_rank", *node.go.rank);
    object.text("state", link::word(node.state));
    if (node.state == link::Node::State::missing) continue;
    object.text("host", node.hello.host);
    if (!node.hello.pod.empty()) object.text("pod", node.hello.pod);
    if (!node.hello.platform_node.empty()) object.text("platform_node", node.hello.platform_node);
    if (!node.hello.seen.empty()) object.text("address", node.hello.seen);
    object.number("workers", node.hello.workers);
    const link::Done done = node.done.value_or(link::Done());
    if (node.done) object.number("exit_code", done.code);
    std::vector<json::Object> ends;
    for (const link::WorkerReport& worker : done.workers)
      ends.emplace_back()
          .number("rank", node.go.offset + worker.local_rank)
          .number("exit_code", worker.code.value_or(0))
          .text("time", moment(node.done_at - std::chrono::milliseconds(worker.age)));
    if (!ends.empty()) object.objects("worker_ends", ends);
    if (node.failure) object.text("failure", what_happened(*node.failure));
  }
  return list;
}

std::vector<json::Object> history_json(const std::vector<link::Members::Tenure>& history) {
  std::vector<json::Object> list;
  for (const link::Members::Tenure& tenure : history) {
    json::Object& object = list.emplace_back();
    object.number("node_rank", tenure.rank).number("index", tenure.index).text("host", tenure.host);
    object.text("since", moment(tenure.since));
    if (tenure.until) object.text("until", moment(*tenure.until)).text("why", tenure.why);
  }
  return list;
}

std::string as_json(const ExitReport& report) {
  const supervise::ExitRecord* const record = report.record;
  json::Object object;
  object.number("version", report_version).text("rankshim", RANKSHIM_VERSION);
  object.text("outcome", outcome_of(report)).number("exit_code", report.exit_code);
  object.text("verdict", wording::message(*report.verdict));
  object.object("node", node_json(report));
  const Verdict& verdict = *report.verdict;
  std::string cause = "null";
  if (verdict.root)
    cause = root_json(report, *verdict.root).str();
  else if (verdict.culprit)
    cause = culprit_json(*verdict.culprit).str();
  object.raw("root_cause", cause);
  if (verdict.culprit && is_found(verdict.culprit->cause) && verdict.culprit->hang)
    object.object("hang", hang_json(*verdict.culprit, looks_of(report)));
  const auto& first = report.past_attempts.empty() ? report.phases : report.past_attempts.front().phases;
  if (!first.empty()) object.text("started", moment(first.front().begin));
  object.text("ended", moment(report.end));
  object.object("phases", phases_json(report.phases, report.end,
                                      record != nullptr ? record->workers.first_at : std::nullopt));
  if (record != nullptr) {
    if (verdict.command) object.object("command_exit", command_json(*verdict.command));
    if (record->stop) object.text("stop_signal", signal_name(record->stop->signal));
    if (const auto& alone = record->workers.lone_training) object.text("trains_alone", in_words(*alone));
    object.flag("killed_by_rankshim", record->killed_by_us);
    object.object(
        "leftovers",
        json::Object().number("found", record->leftovers).number("killed", record->leftovers_killed));
    if (!record->left_behind.empty()) object.text("left_behind", in_words(record->left_behind));
    object.number("restarts", record->workers.attempts == 0 ? 0 : record->workers.attempts - 1);
    object.objects("workers", workers_json(report));
  }
  if (report.attempt != 0) object.number("attempt", report.attempt);
  if (!report.past_attempts.empty()) object.objects("past_attempts", past_attempts_json(report));
  if (!report.nodes.empty()) object.objects("nodes", nodes_json(report.nodes));
  if (!report.history.empty()) object.objects("history", history_json(report.history));
  object.object("resources", resources_json());
  const node::MemoryUsage& memory = report.details->memory;
  object.raw("memory", memory.known ? memory_json(memory).str() : "null");
  return object.str() + "\n";
}

void remember(std::vector<PastAttempt>& attempts, PastAttempt attempt) {
  constexpr std::size_t most = 100;
  if (attempts.size() == most) attempts.erase(attempts.begin() + 1);
  attempts.push_back(std::move(attempt));
}

std::string termination_message(const ExitReport& report) {
  const Verdict& verdict = *report.verdict;
  if ((report.exit_code == 0 && !verdict.failed()) || only_a_code(report)) return {};
  std::string text(cut(printable(wording::message(verdict)), longest_verdict));
  text += "\nexit code " + std::to_string(report.exit_code) + ", host " + report.host + "\n";
  if (!verdict.root || verdict.root->error == nullptr) return text;
  std::vector<std::string> lines = lines_of(verdict.root->error->traceback);
  std::size_t first = lines.size();
  std::size_t room = TerminationLog::longest - text.size();
  while (first > 0 && lines[first - 1].size() + 1 <= room) room -= lines[--first].size() + 1;
  for (; first < lines.size(); ++first) text += lines[first] + "\n";
  return text;
}

int conclude_rejected(const settings::Rejected& rejected, const node::Host& host) {
  const settings::Settings& settings = rejected.invocation.settings;
  const bool configured = rejected.exit_code == exit_code::configuration;
  const Verdict verdict{.code = rejected.exit_code,
                        .cause = configured ? outcome::Cause::configuration : outcome::Cause::none,
                        .reason = reason::Faulty{rejected.faults.front()}};
  const Details details;
  const int code = exit_code_of(verdict, settings);
  const ExitReport report{
      .verdict = &verdict, .exit_code = code, .details = &details, .host = host.host_name()};
  if (const std::string path(settings.text(Option::report)); !path.empty())
    replace_file(path, as_json(report));
  TerminationLog(std::string(settings.text(Option::termination_log))).finish(termination_message(report));
  if (rejected.invocation.subcommand == settings::Subcommand::run)
    MetricsFile(std::string(settings.text(Option::metrics_file)))
        .write(
            as_metrics({.phase = PhaseName::ended,
                        .since = report.end,
                        .host = report.host,
                        .last_exit = LastExit{code, verdict.cause},
                        .calendar = system_clock::now().time_since_epoch() -
                                    duration_cast<system_clock::duration>(report.end.time_since_epoch())}));
  return code;
}

}  // namespace rankshim::report
