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

/// Of a listener to which all nodes of a job may come at one moment.
inline constexpr int longest_backlog = 4096;

/// Listens on the port of all addresses, of both families where the kernel has IPv6. That works while
/// connections of the port are open, and the command inherits none. A `backlog` of 0: it only binds.
boost::system::error_code open_listener(tcp::acceptor& acceptor, std::uint16_t port, int backlog);

/// A secret key, and the tags that only those can make and check who have it: BLAKE2b of 32 bytes with a key
/// (RFC 7693), by Monocypher, as hexadecimal digits.
class Key {
 public:
  /// The key of a text of any length.
  explicit Key(std::string_view secret);

  [[nodiscard]] std::string tag(std::string_view text) const;

  /// The key of one connection, from the two messages that begin it. Both hold a random number, so no two
  /// connections have the same.
  [[nodiscard]] Key for_connection(std::string_view hello, std::string_view welcome) const;

  /// The tag of the `counter`-th message of a direction: 'h' from the hub, 'p' from a peer.
  [[nodiscard]] std::string of_message(char direction, std::uint64_t counter, std::string_view text) const;

 private:
  std::array<unsigned char, 32> bytes_{};
};

/// Whether two tags are the same, in a time that does not depend on where they differ.
bool same_tag(std::string_view one, std::string_view other);

/// A random number of 128 bits as hexadecimal digits.
std::string random_number();

/// What the other side has said: a message, and the line in which it came.
struct ReceivedMessage {
  Message message;
  Line line;
};

/// One side of a connection: it greets, cuts the stream into lines, makes and checks their tags. Every line
/// is sent at once, as far as the socket takes it.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum class Side : char { hub = 'h', peer = 'p' };

  /// `timeout` is how long the other side may be silent at the level of TCP.
  Connection(tcp::socket socket, Side side, std::chrono::milliseconds timeout);

  /// The next message; nothing once the connection has ended, and why() then says why.
  boost::asio::awaitable<std::optional<ReceivedMessage>> next();
  /// How often this was called since the last message came.
  unsigned silent_rounds() { return ++silent_rounds_; }
  /// A message that is here already.
  std::optional<ReceivedMessage> take();
  /// Calls `ready` once when take() may have more, or the connection has ended. A fifth of what next() needs
  /// in memory while it waits; node 0 has thousands of connections.
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
  /// Sends a message's text. A side that does not read what it is sent loses the connection.
  void send(const std::string& text);

  /// Every further line, of both directions, has a tag.
  void use(const Key& key) { key_ = key; }
  /// Whether the line has the right tag: for the one that brought the key.
  bool check(const Line& line);

  /// Sends what is left, then nothing more; the other side is expected to close.
  void finish();
  /// The first reason counts.
  void close(const std::string& why);

  [[nodiscard]] bool is_open() const { return socket_.is_open(); }
  [[nodiscard]] const std::string& why() const { return why_; }
  /// Whether the other side's kernel has ended it (FIN, RST), and not this side for a silence.
  [[nodiscard]] bool ended_by_other() const { return ended_by_other_; }
  [[nodiscard]] StreamError broken() const { return decoder_.at_end(); }
  [[nodiscard]] bool is_finishing() const { return finishing_; }
  /// Whether something that was sent has not come to the other side's kernel; after the end, whether it never
  /// will. No event says that it has.
  [[nodiscard]] bool unheard() const;
  /// Without ports; an IPv4 address in IPv6's clothes is plain.
  [[nodiscard]] const std::string& local_address() const { return local_address_; }
  [[nodiscard]] const std::string& remote_address() const { return remote_address_; }

 private:
  bool read();
  void write();

  tcp::socket socket_;
  std::string local_address_;
  std::string remote_address_;
  Side side_;
  bool finishing_ = false;
  bool writing_ = false;
  bool unheard_ = false;  ///< at the end
  bool ended_by_other_ = false;
  unsigned reads_ = 0;  ///< since it last waited
  unsigned silent_rounds_ = 0;
  Decoder decoder_;
  std::string out_;  ///< begins with the greeting: the hub's goes out with its first answer
  std::string why_;
  std::optional<Key> key_;
  std::uint64_t received_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace rankshim::link
