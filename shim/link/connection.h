#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "link/message.h"
#include "link/roster.h"

namespace rankshim::link {

using boost::asio::ip::tcp;

inline Time now() { return std::chrono::steady_clock::now(); }

/// The backlog of a listener to which all nodes of a job may connect at the same moment.
inline constexpr int longest_backlog = 4096;

/// Listens on the port on all addresses, of both families if the kernel has IPv6. Works even while
/// connections on the port are open; the command does not inherit the descriptor. With a `backlog` of 0, only
/// binds.
boost::system::error_code open_listener(tcp::acceptor& acceptor, std::uint16_t port, int backlog);

/// A secret key, and the message tags that only its holders can make and check: keyed 32-byte BLAKE2b (RFC
/// 7693), from Monocypher, as hexadecimal digits.
class Key {
 public:
  /// Derives the key from a text of any length.
  explicit Key(std::string_view secret);

  [[nodiscard]] std::string tag(std::string_view text) const;

  /// The key for one connection, from its first two messages. Both contain a random number, so no two
  /// connections have the same key.
  [[nodiscard]] Key for_connection(std::string_view hello, std::string_view welcome) const;

  /// The tag for the `counter`-th message in a direction: 'h' from the hub, 'p' from a peer.
  [[nodiscard]] std::string of_message(char direction, std::uint64_t counter, std::string_view text) const;

 private:
  std::array<unsigned char, 32> bytes_{};
};

/// Whether two tags are equal, in a time that does not depend on where they differ.
bool same_tag(std::string_view one, std::string_view other);

/// A 128-bit random number as hexadecimal digits.
std::string random_number();

/// A message from the other side, and the line in which it came.
struct ReceivedMessage {
  Message message;
  Line line;
};

/// One side of a connection: sends the greeting, splits the stream into lines, and makes and checks their
/// tags. Each line is sent at once, as far as the socket accepts it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class Side : char { hub = 'h', peer = 'p' };

  /// `timeout` is how long the other side may be silent at the TCP level.
  Connection(tcp::socket socket, Side side, std::chrono::milliseconds timeout);

  /// Waits for the next message; nullopt once the connection has ended, and why() then says why.
  boost::asio::awaitable<std::optional<ReceivedMessage>> next();
  /// Returns how often this was called since the last message arrived.
  unsigned silent_rounds() { return ++silent_rounds_; }
  /// A message that has already arrived; nullopt if there is none.
  std::optional<ReceivedMessage> take();
  /// Calls `ready` once, when take() may have more or the connection has ended. While waiting it takes a
  /// fifth of the memory that next() would; node 0 has thousands of connections.
  template <class Ready>
  void when_ready(const Ready& ready) {
    socket_.async_wait(tcp::socket::wait_read, [weak = weak_from_this(), ready](boost::system::error_code) {
      if (const auto self = weak.lock()) {
        self->reads_ = 0;
        ready();
      }
    });
  }

  void send(const Message& message) { send(to_text(message)); }
  /// Sends a message's text. If the other side does not read what it is sent, the connection is closed.
  void send(const std::string& text);

  /// From now on every line, in both directions, has a tag.
  void use(const Key& key) { key_ = key; }
  /// Whether the line has the right tag; for the line that came before use() of the key.
  bool check(const Line& line);

  /// Sends what is left, and nothing more after that; the other side is expected to close.
  void finish();
  /// Closes the connection; only the first reason is kept. `error` is the system's, for by_system.
  void close(Closed why, const std::string& error = {});

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] Closed why() const { return why_; }
  /// The same as a problem of whoever needs the connection.
  [[nodiscard]] Problem end() const {
    return {.kind = ProblemKind::connection_ended, .detail = error_, .closed = why_};
  }
  [[nodiscard]] EndedBy ended_by() const { return ended_by_; }
  [[nodiscard]] StreamError broken() const { return decoder_.at_end(); }
  [[nodiscard]] bool is_finishing() const { return finishing_; }
  /// Whether something that was sent has not reached the other side's kernel yet; after the end, whether it
  /// never will. No event shows that it has.
  [[nodiscard]] bool unheard() const;
  /// The addresses, without ports; an IPv4-mapped IPv6 address is shown as IPv4.
  [[nodiscard]] const std::string& local_address() const { return local_address_; }
  [[nodiscard]] const std::string& remote_address() const { return remote_address_; }

 private:
  bool read();
  void write();
  void note_end(const boost::system::error_code& error);

  tcp::socket socket_;
  std::string local_address_;
  std::string remote_address_;
  Side side_;
  bool finishing_ = false;
  bool writing_ = false;
  bool unheard_ = false;  ///< at the end
  EndedBy ended_by_ = EndedBy::nothing;
  unsigned reads_ = 0;  ///< since it last waited
  unsigned silent_rounds_ = 0;
  Decoder decoder_;
  std::string out_;  ///< begins with the greeting; the hub's is sent with its first answer
  Closed why_ = Closed::no;
  std::string error_;
  std::optional<Key> key_;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace rankshim::link
