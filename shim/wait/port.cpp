#include "wait/port.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <cstring>
#include <list>

#include "node/own_address.h"

namespace rankshim::wait {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;

namespace {

constexpr std::size_t most_at_once = 16;

/// One connection, until it counts as open or has failed.
class Attempt {
 public:
  Attempt(ip::address address, PollSet& poll)
      : look_{.state = PortState::silent, .address = std::move(address)}, poll_(poll) {}
  ~Attempt() { end(); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  void begin(std::uint16_t port, const Timing& timing, Clock::time_point deadline) {
    settle_ = timing.settle_time;
    until_ = std::min(deadline, Clock::now() + timing.connect_timeout);
    const ip::tcp::endpoint peer(look_.address, port);
    fd_ = socket(peer.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0) return fail(errno);
    if (connect(fd_, peer.data(), static_cast<socklen_t>(peer.size())) == 0) return connected();
    if (errno != EINPROGRESS) return fail(errno);
    poll_.watch(fd_, EPOLLOUT, tag());
  }

  void on_event() {
    if (!pending()) return;
    if (connected_) return on_traffic();
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return fail(error);
    connected();
  }

  void on_time(Clock::time_point now) {
    if (pending() && now >= until_) end(connected_ ? PortState::open : PortState::silent);
  }

  [[nodiscard]] std::uint64_t tag() const { return reinterpret_cast<std::uintptr_t>(this); }
  [[nodiscard]] bool pending() const { return fd_ >= 0; }
  [[nodiscard]] Clock::time_point until() const { return until_; }
  [[nodiscard]] const PortLook& look() const { return look_; }

 private:
  void connected() {
    // If nothing listens on a port of this node that the kernel also assigns automatically, the kernel can
    // connect a socket to itself.
    ip::tcp::endpoint self;
    ip::tcp::endpoint peer;
    auto self_length = static_cast<socklen_t>(self.capacity());
    auto peer_length = static_cast<socklen_t>(peer.capacity());
    if (getsockname(fd_, self.data(), &self_length) != 0 ||
        getpeername(fd_, peer.data(), &peer_length) != 0) {
      return end(PortState::hung_up);
    }
    if (self == peer) return end(PortState::closed);
    connected_ = true;
    until_ = Clock::now() + settle_;
    poll_.watch(fd_, EPOLLIN | EPOLLRDHUP, tag());
  }

  void on_traffic() {
    char byte = 0;
    const ssize_t n = recv(fd_, &byte, 1, MSG_PEEK);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    end(n > 0 ? PortState::open : PortState::hung_up);  // a peer that sends first is there
  }

  void fail(int error) {
    switch (error) {
      case ECONNREFUSED:
        return end(PortState::closed);
      case ECONNRESET:
      case ECONNABORTED:
      case EPIPE:
        return end(PortState::hung_up);
      case ETIMEDOUT:
        return end(PortState::silent);
      case EHOSTUNREACH:
      case EHOSTDOWN:
      case ENETDOWN:
      case ENETUNREACH:
        return end(PortState::no_route);
      default:
        look_.error = error;
        return end(PortState::failed);
    }
  }

  void end(PortState state) {
    look_.state = state;
    end();
  }
  void end() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  PortLook look_;
  PollSet& poll_;
  int fd_ = -1;
  bool connected_ = false;
  std::chrono::milliseconds settle_{0};
  Clock::time_point until_;
};

}  // namespace

std::string PortLook::reason() const {
  switch (state) {
    case PortState::failed:
      return std::string("cannot connect: ") + std::strerror(error);
    case PortState::no_route:
      return "no route to it";
    case PortState::silent:
      return "no answer from the port (connecting timed out)";
    case PortState::closed:
      return "port closed (connection refused)";
    case PortState::hung_up:
      return "the port accepts and closes the connection at once (a proxy without a server behind it?)";
    case PortState::open:
      break;
  }
  return "port open";
}

asio::awaitable<PortLook> look_at_port(asio::any_io_executor executor, std::span<const ip::address> addresses,
                                       std::uint16_t port, Timing timing, Clock::time_point deadline) {
  PollSet poll(executor);
  if (poll.error() != 0) co_return PortLook{.refused = poll.error()};
  std::list<Attempt> attempts;
  for (const ip::address& address : addresses.first(std::min(addresses.size(), most_at_once))) {
    attempts.emplace_back(address, poll).begin(port, timing, deadline);
  }
  PortLook best;
  for (;;) {
    auto next = Clock::time_point::max();
    best = PortLook{};
    for (const Attempt& attempt : attempts) {
      if (attempt.pending()) {
        next = std::min(next, attempt.until());
      } else if (attempt.look().state > best.state || best.address.is_unspecified()) {
        best = attempt.look();
      }
    }
    if (best.state == PortState::open || next == Clock::time_point::max()) break;
    const auto events = co_await poll.wait(next);
    if (poll.error() != 0) co_return PortLook{.refused = poll.error()};
    for (Attempt& attempt : attempts) {
      for (const epoll_event& event : events) {
        if (event.data.u64 == attempt.tag()) attempt.on_event();
      }
      attempt.on_time(Clock::now());
    }
  }
  co_return best;
}

bool is_own(const ip::address& address) {
  const ip::tcp::endpoint endpoint(address, 0);
  return is_own_address(*endpoint.data(), static_cast<socklen_t>(endpoint.size()));
}

}  // namespace rankshim::wait
