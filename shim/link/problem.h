#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/describe/class.hpp>

#include "outcome/outcome.h"
#include "wait/port.h"

/// What keeps the nodes from starting together, or from being linked: values, most of which travel on the
/// wire. The sentences are in link/wording.cpp.
namespace rankshim::link {

/// A node, as messages name it: "node 3 (e, 10.0.0.9)". Unknown parts are empty.
struct NodeName {
  unsigned rank = 0;  ///< its number among all nodes
  std::string host;
  std::string address;

  bool operator==(const NodeName&) const = default;
};

/// What all nodes of a job must have the same.
enum class Agreed : std::uint8_t {
  run_id,
  attempt,
  nnodes,
  master_port,
  launcher,
  job_restarts,
  spares,
  nproc_per_node,
};

/// What is wrong, and which of the problem's members say more about it. The names are those on the wire.
enum class ProblemKind : std::uint8_t {
  differs,            ///< `node` has `theirs` as `agreed`, and `other` has `ours`; for run_id, also `master`
  too_many_workers,   ///< `node` has `number`, and may have `most`
  too_many_restarts,  ///< `node` knows of `number`, and `most` are allowed
  rank_out_of_range,  ///< that of `node`, in a job of `most` nodes
  rank_twice,         ///< `node` and `other` have the same
  token_missing,      ///< `node` has none, and the job has one
  token_unexpected,   ///< `node` has one, and node 0 has none
  token_unproven,     ///< `node` did not prove that it knows the job's
  hub_without_token,  ///< the hub, `node`, has none, and this node has one
  other_token,        ///< the hub, `node`, has another one
  version,            ///< of the protocol; `addresses` has the other's, unless it is node 0
  attempt_unknown,    ///< `node`, a hub, does not know of the job's last attempt
  too_late,           ///< the job has started without `node`
  failed,             ///< `culprit` cannot join
  itself,             ///< this node has connected to itself
  impossible_hub,     ///< whoever answers says that it is `node`, of `most`
  hub_restarted,      ///< the hub, `node`, is a new instance
  not_the_hub,        ///< `node` is not the hub, and does not know it
  another_hub,        ///< `node` is the hub
  port_in_use,        ///< the master's, `number`; `detail` is the process that has it, if known
  port_not_free,      ///< the master's, `number`: it cannot be bound while connections of it are open
  store_clients,      ///< `number` of them came instead of nodes, the first from `addresses`
  store_answers,      ///< torch's, at `master`, for `number` ms
  nodes_missing,      ///< not all nodes have come in time
  refused,            ///< something that was needed; `detail` says what, and why

  // Why there is no connection to the hub:
  no_connection,     ///< `probe` says why
  no_answer,         ///< whoever listens there accepts the connection, and says nothing
  hangs_up,          ///< whoever listens there accepts the connection, and closes it
  store_there,       ///< torch's store listens there
  other_there,       ///< something else listens there
  unproven_hub,      ///< whoever answers at `addresses` does not prove the token; `because`: what it says
  connection_ended,  ///< `closed` says why and, for by_system, `detail`
};

/// Why a connection has ended.
enum class Closed : std::uint8_t {
  no,         ///< it is open
  by_other,   ///< the other side closed it
  by_system,  ///< the system reported an error
  invalid,    ///< a message was invalid, or lacked the right tag
  foreign,    ///< the other side does not speak the link's protocol
  unread,     ///< the other side does not read what it is sent
  silent,     ///< the other side's rankshim did not answer for --link-timeout
  late,       ///< the other side did not say in time who it is, or did not close
  unnamed,    ///< the other side did not say first who it is
  unproven,   ///< the other side did not prove the token
  sent_away,  ///< one side has sent the other away
  over,       ///< this side needs it no longer
};

/// Something that keeps nodes from starting together, or from being linked.
struct Problem {
  ProblemKind kind = ProblemKind::refused;
  std::optional<Agreed> agreed;
  std::optional<NodeName> node;
  std::optional<NodeName> other;
  std::optional<outcome::Culprit> culprit;
  std::string theirs;
  std::string ours;    ///< empty if the other side must not know it
  std::string master;  ///< its name, or name and port
  std::vector<std::string> addresses;
  std::string detail;  ///< the system's words for an error, or the name of a process
  unsigned number = 0;
  unsigned most = 0;
  // Not on the wire:
  std::optional<wait::PortProbe> probe;
  Closed closed = Closed::no;
  std::vector<Problem> because;  ///< at most one

  bool operator==(const Problem&) const = default;
};

/// The first few of a list, and how many are left out.
template <class Element>
struct Few {
  static constexpr std::size_t most = 3;
  std::vector<Element> first;
  unsigned more = 0;

  [[nodiscard]] bool empty() const { return first.empty(); }
  void add(Element element, std::size_t limit = most) {
    if (first.size() < limit)
      first.push_back(std::move(element));
    else
      ++more;
  }

  BOOST_DESCRIBE_CLASS(Few, (), (first, more), (), ())
};

/// Too few voters are connected (link/quorum.h): more than half must be.
struct LackingVotes {
  unsigned here = 0;
  unsigned all = 0;
  bool counted = false;  ///< those that were counted for this attempt, rather than those of the last one
};

/// Who is not here, and why those that are here do not start.
struct RollCall {
  unsigned nodes = 0;      ///< of the job
  Few<unsigned> missing;   ///< by index, the first ten; once the time is up, only those that never came
  bool is_enough = false;  ///< with spares: as many are here as train
  Few<NodeName> silent;    ///< they have not answered the count of the voters yet
  std::optional<LackingVotes> votes;
  Few<NodeName> gone;  ///< they were here
  Few<Problem> problems;
};

}  // namespace rankshim::link
