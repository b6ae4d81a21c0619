#include "link/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <vector>

#include "base/duration.h"
#include "base/text.h"

namespace rankshim::link {
namespace {

/// How a message names what all nodes must have the same, and what sets it.
struct AgreedWords {
  std::string_view name;
  std::string_view variable;  ///< empty if no variable does
};

/// In the order of the enum.
constexpr std::array<AgreedWords, 8> agreed_words = {{{"run id", "RANKSHIM_RUN_ID"},
                                                      {"attempt", ""},
                                                      {"nnodes", "RANKSHIM_NNODES"},
                                                      {"master port", "RANKSHIM_MASTER_PORT"},
                                                      {"launcher", "RANKSHIM_LAUNCHER"},
                                                      {"--job-restarts", "RANKSHIM_JOB_RESTARTS"},
                                                      {"--spares", "RANKSHIM_SPARES"},
                                                      {"--nproc-per-node", "RANKSHIM_NPROC_PER_NODE"}}};

std::string set_the_same(std::string_view variable) {
  return fmt::format("set {} to the same on all nodes", variable);
}

std::string value_in_words(const std::string& text) { return text.empty() ? "none" : in_quotes(text); }

std::string name_of(const NodeName& node) { return node_name(node.rank, node.host, node.address); }
std::string name_of(unsigned index) { return node_name(index, ""); }

std::string difference_in_words(const Problem& problem, const std::string& node, const std::string& other) {
  const Agreed agreed = problem.agreed.value_or(Agreed::run_id);
  const auto& [name, variable] = agreed_words.at(static_cast<std::size_t>(agreed));
  const bool is_foreign = agreed == Agreed::run_id;
  std::string remedy = agreed == Agreed::attempt ? "one of them belongs to another attempt of the job"
                                                 : set_the_same(variable);
  if (is_foreign)
    remedy =
        fmt::format("the master's name {} leads to another job, or {}", in_quotes(problem.master), remedy);
  return fmt::format("{} has {} {}, {} has {}; {}", node, name, value_in_words(problem.theirs), other,
                     is_foreign ? "another" : value_in_words(problem.ours), remedy);
}

/// In the order of the enum.
constexpr std::array<std::string_view, 12> closed_words = {
    "it is open",
    "the other side closed it",
    "the system reported an error",
    "an invalid message, or one without the right tag",
    "not the link's protocol",
    "it does not read what it is sent",
    "its rankshim does not answer",
    "it did not say in time who it is, or did not close",
    "it did not say who it is",
    "it did not prove the token",
    "it was sent away",
    "it is not needed any longer"};

std::string closed_in_words(const Problem& problem) {
  const bool is_told = problem.closed == Closed::by_system && !problem.detail.empty();
  return is_told ? problem.detail : std::string(closed_words.at(static_cast<std::size_t>(problem.closed)));
}

std::string unproven_in_words(const Problem& problem) {
  std::string text =
      fmt::format("the rankshim at {} answers without the job's token", joined(problem.addresses));
  for (const Problem& said : problem.because) text += ": " + in_words(said);
  return text;
}

/// "the master's port 29500, which python (pid 7) holds".
std::string port_in_words(const Problem& problem) {
  return fmt::format("the master's port {}, which {}", problem.number,
                     problem.detail.empty() ? "is in use" : problem.detail + " holds");
}

std::string addresses_in_words(const Problem& problem) {
  const std::size_t shown = problem.addresses.size();
  return few(problem.addresses, problem.number - std::min<std::size_t>(problem.number, shown));
}

/// "node 1, node 2, and 5 more", "node 1 (e), node 2 (f)".
template <class Element>
std::string list_in_words(const Few<Element>& nodes) {
  std::vector<std::string> names;
  std::ranges::transform(nodes.first, std::back_inserter(names),
                         [](const Element& node) { return name_of(node); });
  return few(names, nodes.more);
}

/// "1 of 3 nodes: node 2", "1 of 3 nodes did not join in time: node 2".
std::string count_in_words(const RollCall& roll_call, std::string_view what) {
  return fmt::format("{} of {} nodes{}: {}", roll_call.missing.first.size() + roll_call.missing.more,
                     roll_call.nodes, what, list_in_words(roll_call.missing));
}

/// "1 of the 3 nodes of the last attempt is here, and more than half must be".
std::string votes_in_words(const LackingVotes& votes) {
  return fmt::format("{} of the {} nodes {} {} here, and more than half must be", votes.here, votes.all,
                     votes.counted ? "that were counted" : "of the last attempt",
                     votes.here == 1 ? "is" : "are");
}

/// Why the nodes that are here do not start. The votes are only counted once all have answered.
std::string reason_in_words(const RollCall& roll_call) {
  if (!roll_call.silent.empty()) return "no answer yet from " + list_in_words(roll_call.silent);
  return roll_call.votes ? votes_in_words(*roll_call.votes) : "";
}

/// "node 2 (e) connected and then disconnected"; empty if none did.
std::string gone_in_words(const RollCall& roll_call) {
  return roll_call.gone.empty() ? "" : list_in_words(roll_call.gone) + " connected and then disconnected";
}

/// The parts that are not empty, and what is wrong.
std::string with_problems(std::vector<std::string> parts, const RollCall& roll_call) {
  const Few<Problem>& problems = roll_call.problems;
  std::erase(parts, "");
  for (const Problem& problem : problems.first) parts.push_back(in_words(problem));
  return few(parts, problems.more, "; ");
}

std::string absence_in_words(const RollCall& roll_call) {
  const bool have_all_come = roll_call.missing.empty();
  std::string gone = gone_in_words(roll_call);
  if (have_all_come && !gone.empty()) gone = "not all nodes joined at the same time: " + gone;
  return with_problems({have_all_come ? "" : count_in_words(roll_call, " did not join in time"),
                        reason_in_words(roll_call), gone},
                       roll_call);
}

std::string presence_in_words(const RollCall& roll_call) {
  return with_problems({roll_call.missing.empty() ? "" : "waiting for " + count_in_words(roll_call, ""),
                        roll_call.is_enough ? "enough nodes are here to start soon" : "",
                        reason_in_words(roll_call), gone_in_words(roll_call)},
                       roll_call);
}

std::string hub_not_met_in_words(const HubNotMet& unmet) {
  const std::string hub =
      unmet.master.empty() ? "the node that coordinates the job" : "node 0 at " + unmet.master;
  const std::string last = unmet.last ? in_words(*unmet.last) : "";
  switch (unmet.state) {
    case HubNotMet::State::not_reached:
      return fmt::format("{} was not reached in time: {}", hub, last);
    case HubNotMet::State::disconnected:
      return fmt::format("{} connected and then disconnected: {}", hub, last);
    case HubNotMet::State::waits:
      return fmt::format("{} was reached, but {}", hub,
                         unmet.waiting ? in_words(*unmet.waiting) : "not all nodes joined in time");
    case HubNotMet::State::not_found:
      return in_words(unmet.name.value_or(wait::Unreachable())) + (last.empty() ? "" : "; before: " + last);
    case HubNotMet::State::not_tried:
      break;
  }
  return hub + " was not contacted, because the timeout had expired";
}

}  // namespace

std::string in_words(const Problem& problem) {
  const std::string node = name_of(problem.node.value_or(NodeName()));
  const std::string other = name_of(problem.other.value_or(NodeName()));
  const std::string token = "set --job-token-file on all nodes";
  switch (problem.kind) {
    case ProblemKind::differs:
      return difference_in_words(problem, node, other);
    case ProblemKind::too_many_workers:
      return fmt::format("{} has {} workers, and a node has at most {}; {}", node, problem.number,
                         problem.most, set_the_same("RANKSHIM_NPROC_PER_NODE"));
    case ProblemKind::too_many_restarts:
      return fmt::format("{} says that the job was restarted {} times, and at most {} are allowed; {}", node,
                         problem.number, problem.most, set_the_same("RANKSHIM_JOB_RESTARTS"));
    case ProblemKind::rank_out_of_range:
      return fmt::format("{} is out of range: {} nodes have the ranks 0 to {}; set RANKSHIM_NODE_RANK", node,
                         problem.most, problem.most - 1);
    case ProblemKind::rank_twice:
      return fmt::format("two nodes have the rank {}: {} and {}; set a different RANKSHIM_NODE_RANK on each",
                         problem.node.value_or(NodeName()).rank, node, other);
    case ProblemKind::token_missing:
      return fmt::format("{} has no token, and the job has one; {}", node, token);
    case ProblemKind::token_unexpected:
      return fmt::format("{} has a token, and node 0 has none; {}", node, token);
    case ProblemKind::token_unproven:
      return fmt::format("{} did not prove that it knows the job's token (--job-token-file)", node);
    case ProblemKind::hub_without_token:
      return fmt::format("{} has no job token, but this node does; {}", node, token);
    case ProblemKind::other_token:
      return fmt::format(
          "{} has another token, or belongs to another job; give all nodes the same --job-token-file", node);
    case ProblemKind::version:
      return fmt::format(
          "the rankshim {} speaks another version of the link: use the same release on all nodes",
          problem.addresses.empty() ? "of node 0" : "at " + addresses_in_words(problem));
    case ProblemKind::attempt_unknown:
      return node + " does not know of the job's last attempt: it was restarted, or was cut off";
    case ProblemKind::too_late:
      return "the job has started without " + node;
    case ProblemKind::failed:
      return in_words(problem.culprit.value_or(Culprit()));
    case ProblemKind::itself:
      return "it is this node itself";
    case ProblemKind::impossible_hub:
      return fmt::format("a rankshim answers there as node {}, but the job has {} nodes",
                         problem.node.value_or(NodeName()).rank, problem.most);
    case ProblemKind::hub_restarted:
      return node + " was restarted";
    case ProblemKind::not_the_hub:
      return node + " does not coordinate the job";
    case ProblemKind::another_hub:
      return node + " coordinates the job";
    case ProblemKind::port_in_use:
      return fmt::format(
          "node 0 cannot listen on {}: end that process, or set RANKSHIM_MASTER_PORT on all nodes",
          port_in_words(problem));
    case ProblemKind::port_not_free:
      return fmt::format("the master's port {} cannot be bound while connections of it are open",
                         problem.number);
    case ProblemKind::store_clients:
      return "a node without rankshim, or without its link, came to the master's port: " +
             addresses_in_words(problem);
    case ProblemKind::store_answers:
      return fmt::format(
          "torch's store, not rankshim, has answered at {} for {}; restart the whole job if only this node "
          "was restarted, or set another RANKSHIM_MASTER_PORT on all nodes if another job uses the port",
          problem.master, seconds(std::chrono::milliseconds(problem.number)));
    case ProblemKind::nodes_missing:
      return "not all nodes joined in time";
    case ProblemKind::no_connection:
      return problem.probe.value_or(wait::PortProbe()).reason();
    case ProblemKind::no_answer:
      return "the port accepts the connection and does not answer";
    case ProblemKind::hangs_up:
      return "the port accepts and closes the connection";
    case ProblemKind::store_there:
      return "torch's store answers there";
    case ProblemKind::other_there:
      return "something other than rankshim or torch's store listens there";
    case ProblemKind::unproven_hub:
      return unproven_in_words(problem);
    case ProblemKind::connection_ended:
      return closed_in_words(problem);
    case ProblemKind::refused:
      break;
  }
  return problem.detail;
}

std::string in_words(const Waiting& waiting) {
  const std::string_view who =
      waiting.roll_call.is_enough ? "enough" : "all";  // with spares, some may be missing
  switch (waiting.what) {
    case WaitingFor::nodes:
      return presence_in_words(waiting.roll_call);
    case WaitingFor::pause:
      return fmt::format("{} nodes are here; the start is delayed because the last attempts failed early",
                         who);
    case WaitingFor::silent_end:
      return fmt::format(
          "{} nodes are here; they start once the command of a node that fell silent must have ended", who);
    case WaitingFor::port:
      return "waiting for " + port_in_words(waiting.port.value_or(Problem()));
    case WaitingFor::all_ended:
      return fmt::format("waiting for node {} to say that all nodes have ended", waiting.hub);
    case WaitingFor::verdict:
      return fmt::format("waiting for node {} to say what ends the job", waiting.hub);
    case WaitingFor::restart:
      return fmt::format("waiting for node {}, which is stopping its processes before the restart",
                         waiting.hub);
    case WaitingFor::all_told:
      return "waiting until all nodes know how the job ends";
    case WaitingFor::ends:
      break;
  }
  const Few<NodeName>& running = waiting.running;
  if (running.empty()) return "";
  return fmt::format("waiting for {} of {} nodes, which still run: {}", running.first.size() + running.more,
                     waiting.roll_call.nodes, list_in_words(running));
}

std::string in_words(const Refuse& refuse) {
  if (refuse.hub) return hub_not_met_in_words(*refuse.hub);
  return refuse.culprit ? in_words(*refuse.culprit) : absence_in_words(refuse.roll_call);
}

std::string in_words(const Stop& stop) {
  return in_words(stop.culprit) + (stop.unreached ? ": " + in_words(*stop.unreached) : "");
}

std::string in_words(const MeetingResult& result) {
  if (const auto* refuse = std::get_if<Refuse>(&result)) return in_words(*refuse);
  if (const auto* unlinked = std::get_if<Unlinked>(&result)) return in_words(unlinked->why);
  if (const auto* moved = std::get_if<Moved>(&result))
    return fmt::format("node {} coordinates the job", moved->hub.index);
  return "";
}

}  // namespace rankshim::link
