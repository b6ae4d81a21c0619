#include "wait/port.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "loop/loop.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using namespace boost::asio::experimental::awaitable_operators;

namespace {

constexpr std::size_t most_at_once = 16;

/// The state of the port that a failed connection's errno shows.
PortProbe failed(const ip::address& address, int error) {
  const auto is = [error](std::initializer_list<int> any) { return std::ranges::count(any, error) != 0; };
  if (error == ECONNREFUSED) return {PortState::closed, address};
  if (error == ETIMEDOUT) return {PortState::silent, address};
  if (is({ECONNRESET, ECONNABORTED, EPIPE, ENOTCONN})) return {PortState::hung_up, address};
  if (is({EHOSTUNREACH, EHOSTDOWN, ENETDOWN, ENETUNREACH})) return {PortState::no_route, address};
  return {PortState::failed, address, error};
}

/// Connects once, and stays connected for the settle time to see whether the other side closes the
/// connection.
asio::awaitable<PortProbe> try_address(ip::address address, std::uint16_t port, Timing timing,
                                       Clock::time_point deadline) {
  const auto executor = co_await asio::this_coro::executor;
  ip::tcp::socket socket(executor);
  const PortProbe probe =
      co_await connect(socket, {address, port}, std::min(deadline, Clock::now() + timing.connect_timeout));
  if (probe.state != PortState::open) co_return probe;
  loop::Timer timer(executor, Clock::now() + timing.settle_time);
  boost::system::error_code error;
  std::array<char, 1> byte{};
  const auto settled = co_await (socket.async_receive(asio::buffer(byte), ip::tcp::socket::message_peek,
                                                      asio::redirect_error(asio::use_awaitable, error)) ||
                                 timer.async_wait(loop::quietly));
  const bool hung_up = settled.index() == 0 && error;  // a peer that sends something is alive
  co_return PortProbe{hung_up ? PortState::hung_up : PortState::open, address};
}

}  // namespace

asio::awaitable<PortProbe> connect(ip::tcp::socket& socket, ip::tcp::endpoint endpoint,
                                   Clock::time_point until) {
  const ip::address address = endpoint.address();
  boost::system::error_code error;
  socket.open(endpoint.protocol(), error);
  if (error) co_return failed(address, error.value());
  // Asio opens it without this flag. Nothing forks in between, because rankshim has one thread.
  fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
  loop::Timer timer(socket.get_executor(), until);
  const auto connected =
      co_await (socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error)) ||
                timer.async_wait(loop::quietly));
  if (connected.index() == 1) co_return PortProbe{PortState::silent, address};
  // The kernel can connect a socket to itself, if the port is on this node and was also assigned to the
  // socket.
  const ip::tcp::endpoint self = error ? ip::tcp::endpoint() : socket.local_endpoint(error);
  const ip::tcp::endpoint peer = error ? ip::tcp::endpoint() : socket.remote_endpoint(error);
  if (error) co_return failed(address, error.value());
  co_return PortProbe{self == peer ? PortState::closed : PortState::open, address};
}

std::string PortProbe::reason() const {
  if (state == PortState::failed) return std::string("cannot connect: ") + std::strerror(error);
  constexpr std::array<const char*, 6> reasons = {
      "",
      "no route to it",
      "no answer from the port (connection timed out)",
      "port closed (connection refused)",
      "the port accepts and closes the connection (a proxy without a server behind it?)",
      "port open"};
  return reasons[static_cast<std::size_t>(state)];
}

asio::awaitable<PortProbe> probe_port(std::span<const ip::address> addresses, std::uint16_t port,
                                      Timing timing, Clock::time_point deadline) {
  const auto executor = co_await asio::this_coro::executor;
  const auto attempt = [&](const ip::address& address) {
    return asio::co_spawn(executor, try_address(address, port, timing, deadline), asio::deferred);
  };
  std::vector<decltype(attempt(addresses.front()))> attempts;
  for (const ip::address& address : addresses.first(std::min(addresses.size(), most_at_once)))
    attempts.push_back(attempt(address));
  const auto until_open = [](const std::exception_ptr& /*none*/, const PortProbe& probe) {
    return probe.state == PortState::open ? asio::cancellation_type::all : asio::cancellation_type::none;
  };
  const auto [order, thrown, probes] = co_await asio::experimental::make_parallel_group(std::move(attempts))
                                           .async_wait(until_open, asio::use_awaitable);
  const auto best =
      std::ranges::max_element(probes, {}, &PortProbe::state);  // the first one if several are equal
  const std::exception_ptr& error = thrown[static_cast<std::size_t>(best - probes.begin())];
  if (error) std::rethrow_exception(error);
  co_return *best;
}

std::uint16_t sidecar_port(std::string_view tables) {
  // The ports to which a pod's rules redirect outgoing connections: 15001 of Envoy in Istio, Consul and Kuma
  // (and of ztunnel in Istio's ambient mode), 4140 of Linkerd's proxy.
  constexpr std::array<std::uint16_t, 2> proxies = {15001, 4140};
  while (!tables.empty()) {
    std::string_view line = next_line(tables);
    next_word(line);  // "0:"
    std::string_view local = next_word(line);
    next_word(line);                        // the remote address
    if (next_word(line) != "0A") continue;  // listening (include/net/tcp_states.h)
    split_next(local, ":");
    const auto port = parse_number<std::uint16_t>(local, 16).value_or(0);
    if (std::ranges::count(proxies, port) != 0) return port;
  }
  return 0;
}

std::uint16_t find_sidecar() {
  std::string tables;
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    const auto read = read_file(table);
    if (const auto* text = std::get_if<std::string>(&read)) tables += *text + '\n';
  }
  return sidecar_port(tables);
}

}  // namespace rankshim::wait
