#include "outcome/wording.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "base/duration.h"
#include "base/signals.h"
#include "base/text.h"

namespace rankshim::outcome {
namespace {

constexpr std::size_t most_shown = 8;

/// The words for one rank, or for several.
struct NumberWords {
  std::string_view is, was, it, its, they, waits, has;
};
constexpr NumberWords one_rank = {"is", "was", "it", "its", "it", "waits", "has"};
constexpr NumberWords several_ranks = {"are", "were", "them", "their", "they", "wait", "have"};

const NumberWords& words_for(const std::vector<RankRange>& ranks) {
  return is_one(ranks) ? one_rank : several_ranks;
}

/// Who failed, as the subject of a clause; empty if only the text says so.
std::string who_failed(const Culprit& culprit) {
  if (culprit.rank) return fmt::format("rank {}", *culprit.rank);
  if (!culprit.program.empty()) return culprit.program;
  return culprit.text.empty() ? "its command" : "";
}

// ---- a hang ----

/// The clause for a hang that nobody looked at. A worker that its launcher killed was running until then.
std::string still_runs(const Culprit& culprit) {
  const NumberWords& words = words_for(culprit.ranks);
  return fmt::format("{} {} still running; {} timed out waiting for {}", in_words(culprit.ranks),
                     culprit.code == 0 ? words.is : words.was, in_words(culprit.victims), words.it);
}

std::string time_in_words(std::uint32_t milliseconds) {
  return hours_and_minutes(std::chrono::milliseconds(milliseconds));
}

/// "train.py:16".
std::string file_and_line(const Frame& frame) {
  return fmt::format("{}:{}", std::string_view(frame.file).substr(frame.file.rfind('/') + 1), frame.line);
}

/// "load_batch (train.py:16)", "train.py:26" outside a function; empty if it is not known.
std::string line_in_words(const Frame& frame) {
  if (frame.file.empty()) return "";
  const bool in_function = !frame.function.empty() && frame.function != "<module>";
  return in_function ? fmt::format("{} ({})", frame.function, file_and_line(frame)) : file_and_line(frame);
}

/// " in all_reduce (train.py:37)": the operation, or the call, and the line from which it was called; empty
/// if nothing is known.
std::string collective_in_words(const std::string& operation, const Place& place) {
  const std::string& what = operation.empty() ? place.call : operation;
  if (what.empty()) return place.line.file.empty() ? "" : " in " + line_in_words(place.line);
  return " in " + (place.line.file.empty() ? what : fmt::format("{} ({})", what, file_and_line(place.line)));
}

/// " (number 21 of default_pg)"; empty if it is not known.
std::string number_in_words(const Hang& hang) {
  if (hang.number == 0) return "";
  return fmt::format(" (number {}{})", hang.number, hang.group.empty() ? "" : " of " + hang.group);
}

/// How long the waiting ranks have waited: " for 15 min", " until their timeout of 30 min".
std::string wait_in_words(const Hang& hang, std::string_view their) {
  if (hang.stalled) return " for " + time_in_words(*hang.stalled);
  const std::string time = hang.timeout ? " of " + time_in_words(*hang.timeout) : "";
  return fmt::format(" until {} timeout{}", their, time);
}

/// "; ranks 0 and 2 waited in all_reduce (train.py:37) until their timeout of 30 min"; empty if nobody did.
std::string victims_in_words(const Culprit& culprit, const Hang& hang) {
  if (culprit.victims.empty()) return "";
  return fmt::format("; {} waited{}{}", in_words(culprit.victims),
                     collective_in_words(hang.operation, hang.waits_at),
                     wait_in_words(hang, words_for(culprit.victims).its));
}

/// "rank 1 is in broadcast (train.py:36), and ranks 0 and 2 in all_reduce (train.py:37)".
std::string both_in_words(const Culprit& culprit, const Hang& hang) {
  const NumberWords& words = words_for(culprit.ranks);
  const auto is = culprit.code == 0 ? words.is : words.was;
  const std::string other = collective_in_words(hang.other_operation, hang.place);
  const std::string most = collective_in_words(hang.operation, hang.waits_at);
  const std::string further = hang.further == 0 ? "" : fmt::format(", in {} more", hang.further);
  if (culprit.ranks.empty())
    return fmt::format("{} {}{}{} and{}", in_words(culprit.victims), is, other, further, most);
  return fmt::format("{} {}{}{}, and {}{}", in_words(culprit.ranks), is, other, further,
                     in_words(culprit.victims), most);
}

/// What all ranks are doing when none of them is to blame, and why nothing moves: "wait in …".
std::string all_in_words(const Culprit& culprit, const Hang& hang) {
  const std::string where = collective_in_words(hang.operation, hang.waits_at);
  switch (hang.kind) {
    case HangKind::order:
      return hang.operation.empty()
                 ? "for each other in a cycle, so the order of their collectives differs"
                 : fmt::format("{} for each other, so their sends and receives do not match",
                               where.substr(1));
    case HangKind::nobody_missing:
      return fmt::format("{}{}, and no rank is missing: a GPU or the network is stuck",
                         where.empty() ? "for each other" : where.substr(1), number_in_words(hang));
    case HangKind::elsewhere:
      return fmt::format("{}{} for ranks that this node cannot see", where.empty() ? "" : where.substr(1),
                         number_in_words(hang));
    case HangKind::store:
      return fmt::format("{}, in no collective: torch's store on {} does not answer{}",
                         where.empty() ? "for it" : where.substr(1), node_name(culprit.node, culprit.host),
                         hang.waits_at.call == "new_group" ? ", or they do not make the same groups" : "");
    default:
      return where.empty() ? "in different places, which do not show who is to blame"
                           : where.substr(1) + ", in no collective, which does not show who is to blame";
  }
}

std::string hang_in_words(const Culprit& culprit, const Hang& hang) {
  const NumberWords& words = words_for(culprit.ranks);
  const std::string ranks = in_words(culprit.ranks);
  const auto is = culprit.code == 0 ? words.is : words.was;
  switch (hang.kind) {
    case HangKind::missing:
    case HangKind::stopped:
    case HangKind::outlier:
      return fmt::format("{} {} {}{}", ranks, is, in_words(hang.place), victims_in_words(culprit, hang));
    case HangKind::ended:
      return fmt::format("{} exited 0 before the others: {} ran fewer iterations{}", ranks, words.they,
                         victims_in_words(culprit, hang));
    case HangKind::mismatch:
      return fmt::format("the ranks' collectives do not match{}: {}", number_in_words(hang),
                         both_in_words(culprit, hang));
    default:
      const std::string time = hang.stalled ? fmt::format(" for {}", time_in_words(*hang.stalled)) : "";
      return fmt::format("{} waited{} {}", in_words(culprit.victims), time, all_in_words(culprit, hang));
  }
}

// ---- a lost node ----

std::string sign_in_words(const Loss& loss) {
  constexpr std::string_view advice = "look at this node's own network";
  switch (loss.sign) {
    case Loss::Sign::silent:
      return "its rankshim has not answered for " + seconds(loss.time);
    case Loss::Sign::unanswered:
      return "its rankshim does not answer";
    case Loss::Sign::suspended:
      return "its rankshim was suspended for " + hours_and_minutes(loss.time);
    case Loss::Sign::cut_off:
      return fmt::format("the connections to all {} other nodes ended: {}", loss.others, advice);
    case Loss::Sign::outvoted:
      return fmt::format("the connections to more than half of all nodes ended: {}", advice);
    case Loss::Sign::ended:
      break;
  }
  return "its connection ended";
}

/// ", and it did not reconnect within 10 s"; empty if that is unknown.
std::string sequel_in_words(const Loss& loss) {
  const std::string within = loss.within ? fmt::format(" within {} s", loss.within->count() / 1000) : "";
  switch (loss.then) {
    case Loss::Then::restarted:
      return ", and it was restarted";
    case Loss::Then::not_listening:
      return ", and its rankshim no longer listens";
    case Loss::Then::not_back:
      return ", and it did not reconnect" + within;
    case Loss::Then::not_reached:
      return fmt::format(", and {} could not be made again{}",
                         loss.sign == Loss::Sign::ended ? "it" : "the connection", within);
    case Loss::Then::unknown:
      break;
  }
  return "";
}

/// "its connection ended, and ranks 0 and 2 lost their peer".
std::string loss_in_words(const Culprit& culprit) {
  const Loss loss = culprit.loss.value_or(Loss());
  std::string text = sign_in_words(loss) + sequel_in_words(loss);
  if (!culprit.victims.empty())
    text += fmt::format(", and {} lost {} peer", in_words(culprit.victims), words_for(culprit.victims).its);
  return text;
}

/// What follows the node's name: "failed: ".
std::string verb(const Culprit& culprit) {
  switch (culprit.cause) {
    case Cause::hang:
      return "hung: ";
    case Cause::exited_early:
      return "exited early: ";
    case Cause::node_lost:
      return "was lost: ";
    case Cause::stop_requested:
      return "was stopped";
    case Cause::peer_lost:
      return culprit.peer.empty() ? "lost a peer: " : fmt::format("lost its peer {}: ", culprit.peer);
    case Cause::timed_out:
      return "timed out waiting for its peers: ";
    default:
      return "failed: ";
  }
}

}  // namespace

std::string in_words(const RankRange& range) {
  return range.first == range.last ? fmt::format("{}", range.first)
                                   : fmt::format("{}-{}", range.first, range.last);
}

std::string in_words(const std::vector<RankRange>& ranges) {
  std::vector<std::string> parts;
  for (const RankRange& range : ranges) {
    if (parts.size() == most_shown) break;
    parts.push_back(in_words(range));
  }
  std::string last;
  if (ranges.size() > most_shown) {
    last = "more";
  } else if (parts.size() > 1) {
    last = parts.back();
    parts.pop_back();
  }
  const std::string list = joined(parts) + (last.empty() ? "" : " and " + last);
  return (is_one(ranges) ? "rank " : "ranks ") + list;
}

std::string node_name(unsigned rank, std::string_view host, std::string_view address) {
  std::vector<std::string> more;
  if (!host.empty()) more.push_back(in_quotes(host));
  if (!address.empty()) more.emplace_back(address);
  return more.empty() ? fmt::format("node {}", rank) : fmt::format("node {} ({})", rank, joined(more));
}

std::string end_in_words(int code, const std::optional<int>& signal) {
  return signal ? "was killed by " + signal_name(*signal) : fmt::format("exited with code {}", code);
}

std::string in_words(const Place& place) {
  std::vector<std::string> parts;
  const std::string line = line_in_words(place.line);
  const bool stopped = is_stopped(place.state);
  if (stopped) parts.emplace_back("stopped by a signal or a debugger");
  if (place.state == 'D') parts.emplace_back("in state D");
  if (!line.empty())
    parts.push_back("in " + line + (place.call.empty() ? "" : ", which called " + place.call));
  if (place.holds_gil && !stopped && !line.empty()) parts.emplace_back("in a C call that holds the GIL");
  if (!place.kernel.empty() && !stopped) parts.push_back("in the kernel's " + place.kernel);
  if (!place.below.empty()) parts.push_back("above " + place.below);
  if (parts.empty()) parts.emplace_back("still running");
  const std::string_view work = place.polls ? " and polls" : " and works";
  return joined(parts) + std::string(place.works == true ? work : "");
}

std::string what_happened(const Culprit& culprit) {
  const NumberWords& words = words_for(culprit.ranks);
  if (culprit.cause == Cause::hang)
    return culprit.hang ? hang_in_words(culprit, *culprit.hang) : still_runs(culprit);
  if (culprit.cause == Cause::exited_early) {
    const Hang hang = culprit.hang.value_or(Hang());
    return fmt::format("{} exited 0 after {} while {} still waited for {}{}: {} ran fewer iterations",
                       in_words(culprit.ranks), time_in_words(culprit.after.value_or(0)),
                       in_words(culprit.victims), words.it,
                       collective_in_words(hang.operation, hang.waits_at), words.they);
  }
  if (culprit.cause == Cause::node_lost) return loss_in_words(culprit);
  if (culprit.cause == Cause::stop_requested) return culprit.signal ? signal_name(*culprit.signal) : "";
  const std::string who = who_failed(culprit);
  if (who.empty()) return culprit.text;
  const std::string after = culprit.after ? " after " + time_in_words(culprit.after.value_or(0)) : "";
  return fmt::format("{} {}{}{}{}", who, end_in_words(culprit.code, culprit.signal), after,
                     culprit.text.empty() ? "" : ": ", culprit.text);
}

std::string in_words(const Culprit& culprit) {
  if (is_of_all(culprit)) return "the job hung: " + what_happened(culprit);
  if (culprit.cause == Cause::stop_requested && culprit.signal)
    return fmt::format("{} was stopped ({})", node_name(culprit.node, culprit.host), what_happened(culprit));
  return fmt::format("{} {}{}", node_name(culprit.node, culprit.host), verb(culprit), what_happened(culprit));
}

std::string present_hang_in_words(const Culprit& culprit) {
  const Hang hang = culprit.hang.value_or(Hang());
  const NumberWords& words = words_for(culprit.ranks);
  const std::string waiting =
      fmt::format("{} {}", in_words(culprit.victims), words_for(culprit.victims).waits);
  const std::string node = culprit.host.empty() ? "" : " on " + node_name(culprit.node, culprit.host);
  const std::string for_whom =
      fmt::format("{}{} for {}{}", waiting, collective_in_words(hang.operation, hang.waits_at),
                  in_words(culprit.ranks), node);
  switch (hang.kind) {
    case HangKind::missing:
    case HangKind::stopped:
    case HangKind::outlier:
      return fmt::format("{}, which {} {}", for_whom, words.is, in_words(hang.place));
    case HangKind::ended:
      return fmt::format("{}, which {} exited 0", for_whom, words.has);
    case HangKind::mismatch:
      return hang_in_words(culprit, hang);
    default:
      return fmt::format("{} {}", waiting, all_in_words(culprit, hang));
  }
}

std::string in_words(const LoneTraining& training) {
  switch (training.sign) {
    case LoneTraining::Sign::world_size:
      return fmt::format(
          "{}: {} has WORLD_SIZE={}, {} has {}",
          training.meets_some ? "the nodes do not agree on their number" : "this node trains alone",
          training.who, training.world, training.meets_some ? "this job" : "but the job", training.expected);
    case LoneTraining::Sign::launcher_flag:
      return fmt::format("this node trains alone: {} is limited to this node ({}), but the job has {} nodes",
                         training.who, training.flag, training.nodes);
    case LoneTraining::Sign::process_group:
      break;
  }
  return fmt::format(
      "this node trains alone: the default process group of {} has 1 member, but the job has {} nodes",
      training.who, training.nodes);
}

std::string in_the_past(const LoneTraining& training) {
  switch (training.sign) {
    case LoneTraining::Sign::world_size:
      return fmt::format("trained {} (world {} of {})", training.meets_some ? "without some nodes" : "alone",
                         training.world, training.expected);
    case LoneTraining::Sign::launcher_flag:
      return fmt::format("trained alone (1 of {} nodes)", training.nodes);
    case LoneTraining::Sign::process_group:
      break;
  }
  return fmt::format("trained alone (a process group of 1 in a job of {} nodes)", training.nodes);
}

std::string in_words(const Unreached& unreached) {
  return fmt::format("torchrun could not reach {} within {}: port closed (connection refused)",
                     unreached.master, seconds(unreached.limit));
}

}  // namespace rankshim::outcome
