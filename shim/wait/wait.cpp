#include "wait/wait.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <random>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "base/duration.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/addresses.h"
#include "wait/dns.h"
#include "wait/port.h"
#include "wait/schedule.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using std::chrono::milliseconds;

namespace {

milliseconds since(Clock::time_point begin) {
  return std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
}

std::string list(const std::vector<ip::address>& addresses) {
  constexpr std::size_t most = 3;  // a service for the whole job can have thousands
  std::vector<std::string> shown;
  for (const ip::address& address : addresses | std::views::take(most)) shown.push_back(address.to_string());
  return few(shown, addresses.size() - shown.size());
}

/// Advice on a master that was not reached in time.
std::string_view what_to_do(ErrorCode why) {
  switch (why) {
    case ErrorCode::no_such_name:
      return "check that node 0's pod is scheduled, and that its subdomain is the name of a headless Service";
    case ErrorCode::name_server:
      return "check /etc/resolv.conf, and that the network lets this node reach its name servers";
    case ErrorCode::placeholder:
      return "remove that entry from /etc/hosts, or set MASTER_ADDR to node 0's address";
    case ErrorCode::port_closed:
      return "read node 0's log: its launcher has not started, or has failed";
    default:
      return "check node 0, and network policies and firewalls between the nodes";
  }
}

/// Whether the name has only addresses that no other node can have.
bool is_placeholder(const Unreachable& known) {
  return known.addresses.empty() && !known.answer.addresses.empty();
}

bool is_hopeless(const Answer& answer) { return answer.status == QueryStatus::bad_name; }

/// Why the master is not reached yet.
std::string reason_of(const Unreachable& known) {
  if (is_placeholder(known))
    return fmt::format("resolves to {}, which is not the address of another node",
                       list(known.answer.addresses));
  if (known.addresses.empty()) return known.answer.reason();
  const std::string port = known.port ? known.port->reason() : "not tried yet";
  return node::literal(known.host) ? port : "resolves to " + list(known.addresses) + ", " + port;
}

/// Waits for one master, and remembers what is known of it.
class MasterWait {
 public:
  MasterWait(MasterTarget master, Limits limits)
      : master_(std::move(master)),
        limits_(std::move(limits)),
        begin_(Clock::now()),
        step_begin_(begin_),
        deadline_(begin_ + std::min<milliseconds>(limits_.timeout, std::chrono::years(1))),
        random_(static_cast<unsigned>(begin_.time_since_epoch().count() ^ getpid())),
        schedule_(limits_.timing, limits_.nodes),
        resolver_(master_.host, {limits_.resolv_conf, limits_.hosts}, schedule_,
                  limits_.spread ? chance() : 0) {
    if (master_.until != Until::port) return;
    const std::uint16_t sidecar = find_sidecar();
    if (sidecar == 0) return;
    Timing& timing = limits_.timing;
    timing.settle_time = std::max(timing.settle_time, timing.sidecar_settle_time);
    log::info(
        "a mesh proxy runs in this pod (port {}): it accepts connections for a master that does not listen "
        "yet, so a "
        "connection to {} counts after {}",
        sidecar, name(), short_seconds(timing.settle_time));
  }

  /// Looks at the name, the port or both; returns whether the master is reached.
  asio::awaitable<bool> look() {
    // The name is looked up again while waiting for the port, because a pod may come back with another
    // address.
    if (addresses_.empty() ||
        Clock::now() - last_lookup_ >= schedule_.between_checks(limits_.timing.search_interval))
      co_await look_up();
    if (addresses_.empty()) co_return false;
    if (master_.until == Until::name || (mine_ && master_.may_be_mine)) co_return true;
    const PortProbe port = co_await probe_port(addresses_, master_.port, limits_.timing, deadline_);
    if (!port_ || port.state == PortState::open || Clock::now() < deadline_) port_ = port;
    co_return port.state == PortState::open;
  }

  [[nodiscard]] bool over() const { return is_hopeless(resolver_.answer()) || Clock::now() >= deadline_; }

  [[nodiscard]] Clock::time_point next_look() {
    const milliseconds waited = since(step_begin_);
    // Trying the port costs the name servers nothing.
    const Schedule schedule = addresses_.empty() ? schedule_ : Schedule(limits_.timing);
    const auto valid_for = addresses_.empty() ? resolver_.answer().valid_for : std::chrono::seconds(0);
    return std::min(deadline_, Clock::now() + schedule.between_looks(waited, chance(), valid_for));
  }

  /// Logs why the master is not reached yet. Each text is logged once between two reports, so that an answer
  /// that alternates between the replicas of a name server does not fill the log.
  void log_reason() {
    if (limits_.is_quiet) return;
    const auto now = Clock::now();
    const std::string text = reason_of(known());
    if (logged_.empty()) {
      log::info("waiting for master {}: {}", name(), text);
      last_report_ = now;
    } else if (now - last_report_ >= limits_.timing.report_interval) {
      log::info("still waiting for master {} after {} of {}: {}", name(), short_seconds(since(begin_)),
                short_seconds(limits_.timeout), text);
      logged_.clear();
      last_report_ = now;
    } else if (!contains(logged_, text)) {
      log::info("master {}: {}", name(), text);
    } else {
      return;
    }
    logged_.push_back(text);
  }

  [[nodiscard]] Reached reached() const {
    Reached result{{}, mine_};
    for (const ip::address& address : addresses_) {
      const bool first = port_ && port_->state == PortState::open && address == port_->address;
      result.addresses.insert(first ? result.addresses.begin() : result.addresses.end(), address.to_string());
    }
    std::string how = "is open";
    if (!port_) how = "resolves to " + list(addresses_) + (mine_ ? ", an address of this node," : "");
    if (!logged_.empty()) log::info("master {} {} after {}", name(), how, short_seconds(since(begin_)));
    return result;
  }

  /// What is known of the master, as long as it is not reached.
  [[nodiscard]] Unreachable known() const {
    Unreachable known{.host = master_.host,
                      .master = name(),
                      .waited = since(begin_),
                      .answer = resolver_.answer(),
                      .addresses = addresses_,
                      .before = last_resolved_,
                      .port = port_};
    known.error_code = error_code_of(known);
    return known;
  }

 private:
  [[nodiscard]] double chance() { return std::uniform_real_distribution<double>()(random_); }

  [[nodiscard]] std::string name() const {
    const auto address = node::literal(master_.host);
    const std::string host = address ? address->to_string() : master_.host;
    return master_.port == 0 ? host : host_port(host, std::to_string(master_.port));
  }

  static ErrorCode error_code_of(const Unreachable& known) {
    if (is_hopeless(known.answer)) return ErrorCode::no_host;
    if (is_placeholder(known)) return ErrorCode::placeholder;
    if (known.addresses.empty())
      return is_negative(known.answer.status) ? ErrorCode::no_such_name : ErrorCode::name_server;
    return known.port && known.port->state == PortState::closed ? ErrorCode::port_closed
                                                                : ErrorCode::port_silent;
  }

  /// Whether the master was given as 0.0.0.0 or ::, which as a destination means this node itself (ip(7)).
  [[nodiscard]] bool is_wildcard(const ip::address& address) const {
    return node::unmapped(address).is_unspecified() && node::literal(master_.host);
  }

  [[nodiscard]] bool is_useless(const ip::address& address) const {
    return (node::is_unassignable(address) && !is_wildcard(address)) ||
           (master_.elsewhere && node::unmapped(address).is_loopback() && !node::literal(master_.host));
  }

  asio::awaitable<void> look_up() {
    co_await resolver_.look(deadline_);
    last_lookup_ = Clock::now();
    const Answer& answer = resolver_.answer();
    std::vector<ip::address> useful = answer.addresses;
    std::erase_if(useful, [this](const ip::address& address) { return is_useless(address); });
    if (!useful.empty()) {
      if (last_resolved_.empty()) step_begin_ = last_lookup_;  // a new thing to wait for, so look often again
      last_resolved_ = useful;
      mine_ = std::ranges::any_of(useful, [this](const ip::address& address) {
        return node::is_own(address) || is_wildcard(address);
      });
      warn_of_wrong_place(useful);
      addresses_ = std::move(useful);
    } else if (!answer.addresses.empty() || is_negative(answer.status)) {
      addresses_.clear();  // the name is gone; a failing name server would say nothing about the master
    }
  }

  /// Warns, once, a node that waits for itself, or that is the host although the name leads elsewhere.
  void warn_of_wrong_place(const std::vector<ip::address>& addresses) {
    std::string& wrong = mine_ ? master_.wrong_if_mine : master_.wrong_if_not_mine;
    if (wrong.empty() || (mine_ && !std::ranges::all_of(addresses, node::is_own))) return;
    log::warn("master {} is {}, {} of this node, {}", name(), list(addresses),
              mine_ ? "an address" : "no address", std::exchange(wrong, {}));
  }

  MasterTarget master_;
  Limits limits_;
  Clock::time_point begin_;
  Clock::time_point step_begin_;
  Clock::time_point deadline_;
  std::minstd_rand random_;
  Schedule schedule_;
  Resolver resolver_;
  Clock::time_point last_lookup_;
  Clock::time_point last_report_;
  std::vector<std::string> logged_;  // since the last report
  std::vector<ip::address> addresses_;
  std::vector<ip::address> last_resolved_;
  std::optional<PortProbe> port_;
  bool mine_ = false;
};

}  // namespace

std::string in_words(const Unreachable& unreachable) {
  const auto& [error_code, host, master, waited, answer, addresses, before, port] = unreachable;
  if (is_hopeless(answer))
    return fmt::format("master {}: '{}' is neither a host name nor an address", master, host);
  std::string why = reason_of(unreachable);
  if (addresses.empty() && !is_placeholder(unreachable))
    why = (before.empty() ? "its name never resolved: "
                          : fmt::format("its name resolved to {} and is gone: ", list(before))) +
          answer.account();
  return fmt::format("master {} not reached in {}: {}; {}", master, short_seconds(waited), why,
                     what_to_do(error_code));
}

asio::awaitable<Result> wait_for(MasterTarget master, Limits limits) {
  if (master.until == Until::none) co_return Reached{};
  MasterWait waiting(std::move(master), std::move(limits));
  loop::Timer timer(co_await asio::this_coro::executor);
  while (!co_await waiting.look()) {
    if (!waiting.over()) {
      waiting.log_reason();
      timer.expires_at(waiting.next_look());
      co_await timer.async_wait(asio::use_awaitable);
    }
    if (waiting.over()) co_return waiting.known();
  }
  co_return waiting.reached();
}

LookupResult look_up(std::string_view host, milliseconds timeout) {
  try {
    asio::io_context io(1);
    const Result result =
        loop::block_on(io, wait_for({.host = std::string(host), .until = Until::name}, {.timeout = timeout}));
    if (const auto* reached = std::get_if<Reached>(&result)) return {reached->addresses, ""};
    return {{}, in_words(std::get<Unreachable>(result))};
  } catch (const boost::system::system_error& error) {
    return {{}, std::string("the name could not be looked up: ").append(loop::reason(error))};
  }
}

}  // namespace rankshim::wait
