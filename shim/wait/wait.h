#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "wait/schedule.h"
#include "wait/until.h"

namespace rankshim::wait {

struct MasterTarget {
  std::string host;  ///< a name or a literal address, IPv6 with or without brackets
  std::uint16_t port = 0;
  Until until = Until::none;
  /// Do not wait for the port if the name turns out to be an address of this node: in an elastic job without
  /// ranks only this shows that this node is the one that will listen there.
  bool may_be_mine = false;
  /// The master is another node, as far as is known. A name that resolves to a loopback address then counts
  /// as one without a record (a hosts file or a name server returns a placeholder), because that address
  /// means every node itself. A loopback address that was given as a literal is accepted.
  bool elsewhere = false;
  /// What is wrong if all of the name's addresses are this node's, or none of them: the end of a warning that
  /// begins with where the name leads. Empty if it is as it should be.
  std::string wrong_if_mine;
  std::string wrong_if_not_mine;
};

struct Limits {
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  std::string resolv_conf = "/etc/resolv.conf";
  std::string hosts = "/etc/hosts";
  unsigned nodes = 1;     ///< that wait for the same master: many of them ask less often
  bool is_quiet = false;  ///< nothing is logged
  bool spread = false;    ///< the node waits for its turn before its first question, if there are many
  Timing timing;          ///< only tests change it
};

struct Reached {
  std::vector<std::string> addresses;  ///< literal addresses of the master, the one that answered first
  bool mine = false;                   ///< one of them is this node's, if the name was looked up
};

/// The time was over, or the name can never be valid. `what` is one line for messages: the step that never
/// succeeded, the queries and their servers, and the last answer.
struct Unreachable {
  ErrorCode error_code = ErrorCode::none;
  std::string what;
};

using Result = std::variant<Reached, Unreachable>;

/// Waits for the master on the coroutine's executor. Logs one line when waiting starts (but not if the first
/// look succeeds), one when the reason changes, and one every 30 s. Cancelling the coroutine (terminal
/// cancellation) ends it at once and closes everything it opened. Throws what the system refuses.
/// (`wait_for(…) || other` results in one flat variant: Reached, Unreachable, or the result of `other`.)
boost::asio::awaitable<Result> wait_for(MasterTarget master, Limits limits);

/// The result of looking a name up for a while.
struct LookupResult {
  std::vector<std::string> addresses;  ///< literal addresses; empty: there is none yet
  std::string why;                     ///< one line for messages, if there is no address
};

/// Looks `host` up as a node does that waits for its master (hosts file, then DNS, repeatedly), for `timeout`
/// at most. Blocks. If the kernel refuses to wait, that is a `why`, too.
LookupResult look_up(std::string_view host, std::chrono::milliseconds timeout);

}  // namespace rankshim::wait
