#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <memory>
#include <random>

#include "link/connection.h"
#include "link/link.h"

namespace rankshim::link {

/// A node but node 0: it connects to the hub, and connects again if the connection is lost.
class Peer final : public Link, public Connection::Owner {
 public:
  Peer(boost::asio::io_context& io, Options options);
  ~Peer() override;

  [[nodiscard]] const std::optional<Stop>& stop() const override { return stop_; }
  [[nodiscard]] std::vector<Node> nodes() const override { return {}; }
  [[nodiscard]] Waiting waiting() const override { return launched_ ? Waiting{} : waiting_; }

  void heard(Connection& connection, const Message& message, const Frame& frame) override;
  void ended(Connection& connection, const std::string& why) override;

 private:
  void send(const Message& message) override;
  boost::asio::awaitable<Met> gather(Time deadline) override;
  boost::asio::awaitable<void> part(bool well) override;
  boost::asio::awaitable<void> part_early() override;
  boost::asio::awaitable<std::optional<Stop>> unheard() override;

  /// How far a connection has come.
  enum class Greeting : std::uint8_t { unreachable, silent, closed, store, welcome };

  boost::asio::awaitable<Greeting> connect(boost::asio::ip::address address, unsigned port, Time deadline);
  boost::asio::awaitable<std::optional<Met>> seek(Time deadline);
  boost::asio::awaitable<void> pause(std::chrono::milliseconds about, Time deadline);
  boost::asio::awaitable<void> connect_again();
  void start_connecting_again();
  boost::asio::awaitable<void> keep_alive(std::weak_ptr<Link> weak);
  void disconnect();
  void refused(Connection& connection, const Refuse& refuse);
  void welcomed(Connection& connection, const Welcome& welcome, const Frame& frame);
  void report(const std::string& reason);
  [[nodiscard]] Refuse timed_out() const;
  /// All nodes of the attempt before are known to be about to come.
  [[nodiscard]] bool is_again() const { return options_.self.restarts != 0; }
  [[nodiscard]] bool is_over() const { return stop_ || is_over_; }
  [[nodiscard]] const Failure* first_failure() const;
  void lose();

  const std::string master_;  ///< HOST:PORT
  std::minstd_rand random_;
  std::shared_ptr<Connection> connection_;
  std::string hello_;             ///< the frame that was sent
  bool is_welcome_ = false;       ///< on this connection
  boost::asio::ip::address hub_;  ///< where the last connection led
  std::optional<Welcome> welcome_;
  std::optional<Met> met_;
  Waiting waiting_;
  std::string reason_;  ///< why there is no connection
  std::string reported_;
  Time next_report_;
  Event answered_;    ///< for connect()
  loop::Timer ping_;  ///< for keep_alive()
  bool launched_ = false;
  bool connecting_again_ = false;
  std::vector<Message> said_;  ///< a new connection begins with it
  std::optional<Stop> stop_;
  /// All have ended well, or this node has ended otherwise and said so, or there is no way back to node 0.
  bool is_over_ = false;
};

}  // namespace rankshim::link
