#include "report/snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/text.h"
#include "report/exit_report.h"

namespace rankshim::report {
namespace {

using std::chrono::milliseconds;

// The largest parts of an answer; all the others together take less than 2 KiB.
constexpr std::size_t longest_waiting_for = std::size_t{4} << 10U;
constexpr std::size_t longest_hang = std::size_t{4} << 10U;
constexpr std::size_t room_for_workers = std::size_t{16} << 10U;
constexpr std::ptrdiff_t most_history = 30;  // entries, the newest, about which node had which rank
constexpr std::size_t room_for_nodes = std::size_t{32} << 10U;

/// Adds what this node knows of its job.
void add_job(json::Object& answer, const topology::Topology& topology) {
  constexpr std::size_t longest = 300;  // a host name has at most 253 characters
  answer.text("platform", cut(topology.platform.name(), longest));
  if (topology.facts.has(Fact::nnodes))
    answer.text("nnodes", cut(topology.facts.text(Fact::nnodes), longest));
  if (const auto rank = topology.node_rank()) answer.number("node_rank", *rank);
  if (const topology::Master* master = topology.master()) answer.text("master", cut(master->text(), longest));
}

void add_workers(json::Object& answer, const supervise::WorkerRecord& record) {
  std::vector<ListElement> workers;
  if (record.followed) {
    answer.number("restarts", record.attempts == 0 ? 0 : record.attempts - 1);
    for (const supervise::WorkerState& worker : record.states) {
      auto& [state, one] = workers.emplace_back(worker.ended ? "ended" : "running");
      one.number("local_rank", worker.local_rank);
      if (worker.rank) one.number("rank", *worker.rank);
      one.number("pid", worker.pid).text("state", state);
    }
  }
  add_list(answer, "workers", workers, room_for_workers);
}

void add_nodes(json::Object& answer, const std::vector<link::Node>& all) {
  std::vector<ListElement> nodes;
  for (json::Object& node : nodes_json(all))
    nodes.push_back({word(all[nodes.size()].state), std::move(node)});
  if (!nodes.empty()) add_list(answer, "nodes", nodes, room_for_nodes);
}

void add_history(json::Object& answer, const std::vector<link::Members::Tenure>& all) {
  const auto first = all.end() - std::min(std::ssize(all), most_history);
  if (!all.empty()) answer.objects("history", history_json({first, all.end()}));
}

}  // namespace

void add_list(json::Object& answer, std::string_view name, const std::vector<ListElement>& all,
              std::size_t most) {
  std::map<std::string_view, std::int64_t> by_state;
  for (const ListElement& element : all) ++by_state[element.state];
  std::vector<const ListElement*> chosen(all.size());
  std::ranges::transform(all, chosen.begin(), [](const ListElement& element) { return &element; });
  std::ranges::sort(chosen, {}, [&](const ListElement* element) {
    return std::pair(by_state[element->state], element);  // those with equal counts stay in the list's order
  });
  std::size_t size = 0;
  std::erase_if(chosen, [&](const ListElement* element) {
    const std::size_t with_it = size + element->object.str().size() + 1;
    if (with_it > most) return true;
    size = with_it;
    return false;
  });
  std::ranges::sort(chosen);
  std::vector<json::Object> objects(chosen.size());
  std::ranges::transform(chosen, objects.begin(), [](const ListElement* element) { return element->object; });
  answer.objects(name, objects);
  if (objects.size() == all.size()) return;
  json::Object counts;
  for (const auto& [state, count] : by_state) counts.number(state, count);
  answer.object(std::string(name) + "_by_state", counts);
}

std::string status_json(const Snapshot& snapshot) {
  const auto elapsed = std::chrono::duration_cast<milliseconds>(Snapshot::Clock::now() - snapshot.since);
  json::Object object;
  object.number("version", 1).text("phase", name(snapshot.phase)).flag("failed", snapshot.failed);
  object.text("since", json::moment(std::chrono::system_clock::now() - elapsed)).seconds("seconds", elapsed);
  if (!snapshot.waiting_for.empty())
    object.text("waiting_for", cut(snapshot.waiting_for, longest_waiting_for));
  object.number("pid", getpid());
  if (snapshot.command != 0) object.number("command_pid", snapshot.command);
  if (snapshot.attempt != 0) object.number("attempt", snapshot.attempt);
  if (snapshot.last_exit)
    object.object("last_exit", json::Object()
                                   .number("exit_code", snapshot.last_exit->code)
                                   .text("cause", outcome::name(snapshot.last_exit->cause)));
  if (snapshot.topology != nullptr) add_job(object, *snapshot.topology);
  if (const auto& prepared = snapshot.prepared)
    object.object("prepared", json::Object()
                                  .number("attempt", prepared->number)
                                  .number("processes", static_cast<std::int64_t>(prepared->processes))
                                  .number("ready", static_cast<std::int64_t>(prepared->ready)));
  if (!snapshot.hang.empty()) object.text("hang", cut(snapshot.hang, longest_hang));
  if (!snapshot.slow.empty()) object.text("slow", snapshot.slow);
  add_workers(object, snapshot.workers);
  add_nodes(object, snapshot.nodes);
  add_history(object, snapshot.history);
  return object.str() + "\n";
}

}  // namespace rankshim::report
