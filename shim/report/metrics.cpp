#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>

#include "base/text.h"
#include "report/snapshot.h"

namespace rankshim::report {
namespace {

/// A label's value, escaped as in OpenMetrics 1.0 ("Escaping"), safe on a terminal, and truncated.
std::string label_value(std::string_view text) {
  constexpr std::size_t longest = 100;
  const std::string shown = printable(text);
  std::string out;
  for (const char c : cut(shown, longest)) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

/// A label with its value. One without a value is left out, which means the same.
struct Label {
  std::string_view name;
  std::string value;
};

/// MetricsText writes families of samples that all start with the same labels. Prometheus' own text format
/// (node_exporter's) accepts the output as well: `# UNIT` and `# EOF` are comments there, and types that it
/// does not have (info, stateset) are not used.
class MetricsText {
 public:
  explicit MetricsText(std::initializer_list<Label> common) { add(common_, common); }

  /// Begins a family. A time has its unit in its name.
  MetricsText& family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = type == "counter" ? fmt::format("{}_total", name) : name;
    text_ += fmt::format("# TYPE {} {}\n", name, type);
    if (name.ends_with("_seconds")) text_ += fmt::format("# UNIT {} seconds\n", name);
    text_ += fmt::format("# HELP {} {}\n", name, help);
    return *this;
  }
  MetricsText& sample(std::initializer_list<Label> labels, std::string_view value) {
    std::string all = common_;
    add(all, labels);
    text_ += fmt::format("{}{{{}}} {}\n", name_, all, value);
    return *this;
  }
  MetricsText& sample(std::initializer_list<Label> labels, std::integral auto value) {
    return sample(labels, std::to_string(value));
  }
  MetricsText& sample(std::initializer_list<Label> labels, std::chrono::nanoseconds time) {
    const auto all = std::max<std::int64_t>(0, time / std::chrono::milliseconds(1));
    return sample(labels, fmt::format("{}.{:03}", all / 1000, all % 1000));
  }

  [[nodiscard]] std::string finish() && { return std::move(text_) + "# EOF\n"; }

 private:
  static void add(std::string& to, std::initializer_list<Label> labels) {
    for (const auto& [name, value] : labels)
      if (!value.empty()) to += fmt::format("{}{}=\"{}\"", to.empty() ? "" : ",", name, label_value(value));
  }

  std::string common_, name_, text_;
};

/// The causes that can end an attempt that is followed by another one.
constexpr auto causes_of_restarts = std::to_array<outcome::Cause>({
    outcome::Cause::exited,
    outcome::Cause::signalled,
    outcome::Cause::exception,
    outcome::Cause::out_of_memory,
    outcome::Cause::hang,
    outcome::Cause::exited_early,
    outcome::Cause::peer_lost,
    outcome::Cause::node_lost,
    outcome::Cause::timed_out,
});

void add_restarts(MetricsText& text, const Snapshot& snapshot) {
  text.family("rankshim_restarts", "counter",
              "Restarts of the whole job in place, by what ended the attempt before.");
  std::map<outcome::Cause, unsigned> restarts = snapshot.restarts;
  for (const outcome::Cause cause : causes_of_restarts) restarts.try_emplace(cause, 0);
  for (const auto& [cause, count] : restarts)
    text.sample({{"cause", std::string(outcome::name(cause))}}, count);
  const auto& workers = snapshot.workers;
  if (workers.followed)
    text.family("rankshim_launcher_restarts", "counter", "Restarts of this node's workers by their launcher.")
        .sample({}, std::max(workers.attempts, 1U) - 1);
}

void add_nodes_and_workers(MetricsText& text, const Snapshot& snapshot) {
  if (!snapshot.nodes.empty()) {
    text.family("rankshim_nodes", "gauge", "Nodes of the job, as node 0 of linked nodes knows them.");
    std::map<std::string_view, unsigned> by_state;
    for (auto state = link::Node::State::missing; state <= link::Node::State::spare;
         state = static_cast<link::Node::State>(static_cast<int>(state) + 1))
      by_state.emplace(word(state), 0);
    for (const link::Node& node : snapshot.nodes) ++by_state[word(node.state)];
    for (const auto& [state, count] : by_state) text.sample({{"state", std::string(state)}}, count);
  }
  if (!snapshot.workers.followed) return;
  const auto& states = snapshot.workers.states;
  const auto ended = std::ranges::count_if(states, &supervise::WorkerState::ended);
  text.family("rankshim_workers", "gauge", "Workers of this node, of the last set that was started.")
      .sample({{"state", "ended"}}, ended)
      .sample({{"state", "running"}}, std::ssize(states) - ended);
}

}  // namespace

std::string as_metrics(const Snapshot& snapshot) {
  const topology::Topology* const topology = snapshot.topology;
  const auto fact = [&](Fact which) {
    return topology != nullptr && topology->facts.has(which) ? std::string(topology->facts.text(which)) : "";
  };
  const auto* process = topology != nullptr ? topology->as<topology::CreatedProcess>() : nullptr;
  const auto* master = topology != nullptr ? topology->master() : nullptr;
  MetricsText text({{"run_id", fact(Fact::run_id)},
                    {"host", snapshot.host},
                    {"node_rank", fact(Fact::node_rank)},
                    {"rank", process != nullptr ? std::to_string(process->rank) : ""}});
  text.family("rankshim_info", "gauge", "This rankshim and its job: always 1.")
      .sample({{"version", RANKSHIM_VERSION},
               {"platform", topology != nullptr ? std::string(topology->platform.name()) : ""},
               {"nnodes", fact(Fact::nnodes)},
               {"master", master != nullptr ? master->text() : ""}},
              1);
  text.family("rankshim_phase", "gauge", "The phase that lasts: always 1.")
      .sample({{"phase", std::string(name(snapshot.phase))}}, 1);
  text.family("rankshim_phase_start_time_seconds", "gauge", "When this phase began, since 1970.")
      .sample({}, snapshot.since.time_since_epoch() + snapshot.calendar);
  if (!snapshot.spent.empty())
    text.family("rankshim_phase_seconds", "counter", "Time in the phases that are over, of all attempts.");
  for (const auto& [phase, time] : snapshot.spent) text.sample({{"phase", std::string(name(phase))}}, time);
  text.family("rankshim_attempt", "gauge", "The number of this attempt of the job, from 0.")
      .sample({}, snapshot.attempt);
  add_restarts(text, snapshot);
  add_nodes_and_workers(text, snapshot);
  const PreparedAttempt prepared = snapshot.prepared.value_or(PreparedAttempt());
  text.family("rankshim_prepared_processes", "gauge", "Processes that are prepared for another attempt.")
      .sample({{"state", "importing"}}, prepared.processes - prepared.ready)
      .sample({{"state", "ready"}}, prepared.ready);
  text.family("rankshim_hang_suspected", "gauge", "1 from a notice of a hang until the job continues.")
      .sample({}, snapshot.hang.empty() ? 0 : 1);
  if (const auto& last = snapshot.last_exit)
    text.family("rankshim_last_exit_code", "gauge", "How the last attempt that is over has ended.")
        .sample({{"cause", std::string(outcome::name(last->cause))}}, last->code);
  return std::move(text).finish();
}

}  // namespace rankshim::report
