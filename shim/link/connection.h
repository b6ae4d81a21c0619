#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "link/frame.h"
#include "link/message.h"
#include "link/proof.h"
#include "link/roster.h"
#include "loop/loop.h"

namespace rankshim::link {

using boost::asio::ip::tcp;

inline Time now() { return std::chrono::steady_clock::now(); }

/// Opens a TCP socket that the command does not inherit (those that Asio opens or accepts are inherited).
boost::system::error_code open_socket(tcp::socket& socket, const tcp& protocol);
/// Binds to the port of all addresses, of both families where the kernel has IPv6. That works while
/// connections of the port are open.
boost::system::error_code bind_to(tcp::acceptor& acceptor, std::uint16_t port);
boost::system::error_code open_listener(tcp::acceptor& acceptor, std::uint16_t port, int backlog);

/// The address without its port; an IPv4 address in IPv6's clothes is plain.
std::string address_of(const tcp::endpoint& endpoint);

/// Something that one coroutine waits for, and what it waits for is a matter of its own: it looks again.
class Event {
 public:
  explicit Event(const boost::asio::any_io_executor& executor) : timer_(executor) {}
  boost::asio::awaitable<void> wait(Time until);
  void signal() { timer_.cancel(); }

 private:
  loop::Timer timer_;
};

/// One side of a connection: it greets, cuts the stream into frames, makes and checks their tags. Every frame
/// is sent at once, as far as the socket takes it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class Side : char { hub = 'h', peer = 'p' };

  /// Gets what happens, from the event loop. `ended` comes once, and not after abandon().
  class Owner {
   public:
    Owner() = default;
    virtual ~Owner() = default;
    Owner(const Owner&) = delete;
    Owner& operator=(const Owner&) = delete;
    /// `frame`: in which the message came.
    virtual void heard(Connection& connection, const Message& message, const Frame& frame) = 0;
    virtual void ended(Connection& connection, const std::string& why) = 0;
  };

  Connection(tcp::socket socket, Owner& owner, Side side, ConnectionId id);

  /// Reads from now on. `timeout` is how long the other side may be silent at the level of TCP.
  void start(std::chrono::milliseconds timeout);

  /// Sends the message and returns the frame's bytes that a tag stands for.
  std::string send(const Message& message) { return send(type_of(message), to_json(message)); }
  std::string send(std::uint8_t type, const std::string& body);

  /// Every further frame, of both directions, has a tag.
  void use(const Key& key) { key_ = key; }
  /// Whether the frame has the right tag: for the one that brought the key.
  bool check(const Frame& frame);

  /// Sends what is left, then nothing more; the other side is expected to close.
  void finish();
  /// Closes, without a word to the owner.
  void abandon();
  /// Closes, and tells the owner.
  void drop(const std::string& why);

  [[nodiscard]] ConnectionId id() const { return id_; }
  [[nodiscard]] Broken broken() const { return decoder_.broken(); }
  [[nodiscard]] bool unsent() const { return !out_.empty(); }
  [[nodiscard]] std::string local_address() const;
  [[nodiscard]] std::string remote_address() const { return address_of(remote_); }

 private:
  void read();
  void write();
  void handle_frames();

  tcp::socket socket_;
  tcp::endpoint remote_;
  Owner* owner_;
  ConnectionId id_;
  Side side_;
  bool finishing_ = false;
  bool writing_ = false;
  Decoder decoder_;
  std::string out_;
  std::optional<Key> key_;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace rankshim::link
