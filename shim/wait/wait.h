#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "wait/dns.h"
#include "wait/port.h"
#include "wait/schedule.h"
#include "wait/until.h"

namespace rankshim::wait {

struct MasterTarget {
  std::string host;  ///< a name or a literal address, IPv6 with or without brackets
  std::uint16_t port = 0;
  Until until = Until::none;
  /// Do not wait for the port if the name turns out to be an address of this node. In an elastic job without
  /// ranks, only this shows that this node is the one that will listen there.
  bool may_be_mine = false;
  /// The master is another node, as far as is known. A name that resolves to a loopback address is then
  /// treated as having no record (a hosts file or a name server returned a placeholder), because on every
  /// node that address means the node itself. A loopback address that was given literally is accepted.
  bool elsewhere = false;
  /// What is wrong if all of the name's addresses are this node's, or if none is: the end of a warning that
  /// begins with where the name leads. Empty if nothing is wrong with that.
  std::string wrong_if_mine;
  std::string wrong_if_not_mine;
};

struct Limits {
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  std::string resolv_conf = "/etc/resolv.conf";
  std::string hosts = "/etc/hosts";
  unsigned nodes = 1;     ///< nodes that wait for the same master; if many, each asks less often
  bool is_quiet = false;  ///< log nothing
  bool spread = false;    ///< if there are many nodes, wait for this node's turn before the first question
  Timing timing;          ///< changed only by tests
};

struct Reached {
  std::vector<std::string> addresses;  ///< literal addresses of the master, the one that answered first
  bool mine = false;                   ///< the name was looked up, and one of the addresses is this node's
};

/// Why the master was not reached: the wait timed out, or the name can never be valid.
struct Unreachable {
  ErrorCode error_code = ErrorCode::none;
  std::string host;    ///< as it was given
  std::string master;  ///< for messages: "job-master-0:29500"
  std::chrono::milliseconds waited{0};
  Answer answer;                                    ///< the last one about the name
  std::vector<boost::asio::ip::address> addresses;  ///< those of them that another node can have
  std::vector<boost::asio::ip::address> before;     ///< what it last resolved to, even if that is gone
  std::optional<PortProbe> port;                    ///< nullopt: it was not tried
};

/// The step that never succeeded, the queries and their servers, the last answer, and what to do, on one
/// line: "master job-master-0:29500 not reached in 10 s: its name never resolved: …".
std::string in_words(const Unreachable& unreachable);

using Result = std::variant<Reached, Unreachable>;

/// Waits for the master on the coroutine's executor. Logs one line when the wait starts (unless the first
/// look succeeds), one when the reason changes, and one every 30 s. Cancelling the coroutine (terminal
/// cancellation) ends it at once and closes everything it opened. Throws if the system refuses memory or
/// descriptors. (`wait_for(…) || other` yields one flat variant: Reached, Unreachable, or the result of
/// `other`.)
boost::asio::awaitable<Result> wait_for(MasterTarget master, Limits limits);

/// The result of look_up().
struct LookupResult {
  std::vector<std::string> addresses;  ///< literal addresses; empty: none yet
  std::string why;                     ///< if there is none: why, as one line for messages
};

/// Looks `host` up like a node that waits for its master (hosts file, then DNS, repeatedly), for at most
/// `timeout`. Blocks. If the kernel refuses what that takes, the reason is in `why`.
LookupResult look_up(std::string_view host, std::chrono::milliseconds timeout);

}  // namespace rankshim::wait
