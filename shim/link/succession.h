#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "link/members.h"
#include "link/message.h"

namespace rankshim::link {

/// The address as Asio's; nullopt if what the other node said is not an address and a port.
std::optional<boost::asio::ip::tcp::endpoint> endpoint_of(const ListenAddress& listener);

/// Succession is what a node of a job with spares keeps over all attempts, in order to find the hub again or
/// become it: the hub is on the first reachable node of the last go's list. Every node listens all the time,
/// so a node that refuses a connection has ended, and one that does not answer yet is still ending its
/// command.
struct Succession {
  explicit Succession(boost::asio::io_context& io) : listener(io) {}

  boost::asio::ip::tcp::acceptor listener;  ///< this node's
  std::vector<ListenAddress> candidates;    ///< as in Lead; if empty, node 0 is the hub
  std::optional<ListenAddress> leader;      ///< who has become the hub since, as far as this node has heard
  std::optional<KnownTerm> term;
  std::map<unsigned, Member::State> gone;  ///< the nodes that were lost or drained since
  std::set<unsigned> unreachable;    ///< those of the list that could not be reached since it was last begun
  std::set<unsigned> refused;        ///< of these, those that have ended: their kernels refuse the connection
  unsigned hub = 0;                  ///< the node that was the hub in the last attempt, …
  std::string hub_host;              ///< … its host name, …
  std::optional<unsigned> hub_rank;  ///< … and its rank in the job
  bool hub_has_ended = false;        ///< its own kernel ended the connection, and nothing else can have
  std::optional<unsigned> rank;      ///< this node's in the last attempt
  std::chrono::steady_clock::time_point launched;
  /// When the command of a hub or node that was lost in silence can no longer be running: by then it has
  /// noticed that it is alone.
  std::chrono::steady_clock::time_point all_ended_by;

  /// Whether that node is the hub, as far as this one knows.
  [[nodiscard]] bool is_led_by(unsigned index) const {
    if (leader) return leader->index == index;
    return candidates.empty() ? index == 0 : candidates.front().index == index;
  }
  /// Whether the hub may be a node other than node 0.
  [[nodiscard]] bool is_known() const { return leader || !candidates.empty(); }
  /// Where to look for the hub next; null if all were tried.
  [[nodiscard]] const ListenAddress* next() const;
  /// How many voters of the last go are still to come when nobody has come yet.
  [[nodiscard]] unsigned to_come() const;
  /// The members for this node as the hub, which may have taken over from another one.
  [[nodiscard]] Members members_for(const Hello& self) const;
};

}  // namespace rankshim::link
