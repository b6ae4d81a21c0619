#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "launch/until.h"
#include "wait/pace.h"

namespace rankshim::wait {

struct Master {
  std::string host;  ///< a name or a literal address, IPv6 with or without brackets
  std::uint16_t port = 0;
  Until until = Until::none;
  /// Don't wait for the port where the name turns out to be an address of this node's: in an elastic job
  /// without ranks nobody else could tell that this node is the one that will listen there.
  bool may_be_mine = false;
  /// It is another node, as far as is known: a name that resolves to a loopback address has not got its
  /// record yet (a hosts file or a name server gives it a placeholder), for that is every node itself. A
  /// loopback address that was given as such is taken at its word.
  bool elsewhere = false;
};

struct Limits {
  std::chrono::milliseconds timeout{std::chrono::minutes(10)};
  std::string resolv_conf = "/etc/resolv.conf";
  std::string hosts = "/etc/hosts";
  Pace pace;  ///< only tests change it
};

struct Reached {
  std::vector<std::string> addresses;  ///< literal addresses of the master, the one that answered first
  bool mine = false;                   ///< one of them is this node's own, as far as the name was looked up
  std::chrono::milliseconds waited{0};
};

/// The time was over, or the name can never be one. `what` is one line for a person: which step never
/// succeeded, what was asked of which server, and the last answer.
struct Unreachable {
  std::string what;
};

using Result = std::variant<Reached, Unreachable>;

/// Waits for the master on the coroutine's executor. Logs one line when waiting starts (not where the first
/// look succeeds), one when the reason changes, one each 30 s. Cancelling the coroutine (terminal
/// cancellation) ends it at once by boost::system::system_error and closes all it opened. Never throws for
/// what the network does; that the kernel has no descriptor or memory for an epoll set is a system_error,
/// too. (`wait_for(…) || other` gives one flat variant: Reached, Unreachable, or what `other` gives.)
boost::asio::awaitable<Result> wait_for(Master master, Limits limits);

}  // namespace rankshim::wait
