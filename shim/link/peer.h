#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <memory>
#include <random>

#include "link/connection.h"
#include "link/link.h"

namespace rankshim::link {

/// A node but node 0: it connects to the hub, and connects again if the connection is lost.
class Peer final : public Link, public Connection::Owner, public std::enable_shared_from_this<Peer> {
 public:
  Peer(boost::asio::io_context& io, Options options);
  ~Peer() override;

  void on_stop(std::function<void(const Stop&)> told) override;
  void report_failure(const Failure& failure) override;
  void report_stop(int signal) override { say(Stopping{signal}); }
  [[nodiscard]] std::vector<Node> nodes() const override { return {}; }
  [[nodiscard]] Waiting waiting() const override { return launched_ ? Waiting{} : waiting_; }

  void heard(Connection& connection, const Frame& frame) override;
  void ended(Connection& connection, const std::string& why) override;

 private:
  boost::asio::awaitable<Met> gather(Time deadline) override;
  boost::asio::awaitable<JobEnd> part(Done done) override;
  boost::asio::awaitable<void> part_early() override;
  boost::asio::awaitable<std::optional<Stop>> unheard() override;

  /// How far a connection has come.
  enum class Greeting : std::uint8_t { unreachable, silent, closed, store, welcome };

  boost::asio::awaitable<Greeting> connect(boost::asio::ip::address address, unsigned port, Time deadline);
  boost::asio::awaitable<std::optional<Met>> seek(Time deadline);
  boost::asio::awaitable<void> pause(std::chrono::milliseconds about, Time deadline);
  boost::asio::awaitable<void> connect_again();
  void start_connecting_again();
  static boost::asio::awaitable<void> keep_alive(std::weak_ptr<Peer> peer);
  [[nodiscard]] Message refused(const Refuse& refuse, bool welcome) const;
  void welcomed(Connection& connection, const Welcome& welcome, const Frame& frame);
  void report(const std::string& reason);
  [[nodiscard]] NotMet timed_out() const;
  /// All nodes of the attempt before are known to be about to come.
  [[nodiscard]] bool is_again() const { return options_.self.restarts != 0; }
  [[nodiscard]] bool is_over() const { return stop_ || ended_well_ || unlinked_ || done_badly_; }
  void say(const Message& message);
  void lose();
  void tell_stop() const;

  boost::asio::io_context& io_;
  Options options_;
  std::minstd_rand random_;
  std::shared_ptr<Connection> connection_;
  std::string hello_;             ///< the frame that was sent
  bool is_welcome_ = false;       ///< on this connection
  boost::asio::ip::address hub_;  ///< where the last connection led
  std::optional<Welcome> welcome_;
  std::optional<Message> verdict_;
  Waiting waiting_;
  std::string reason_;  ///< why there is no connection
  std::string reported_;
  Time next_report_;
  Event changed_;     ///< for meet() and finish()
  Event answered_;    ///< for connect()
  loop::Timer ping_;  ///< for keep_alive()
  bool launched_ = false;
  bool connecting_again_ = false;
  std::vector<Message> said_;  ///< since the launch; a new connection begins with it
  std::function<void(const Stop&)> told_;
  std::optional<Stop> stop_;
  std::vector<Failure> failures_;
  bool ended_well_ = false;
  bool unlinked_ = false;    ///< the connection was lost, and there is no way back
  bool done_badly_ = false;  ///< this node has ended otherwise than well, and said so
};

}  // namespace rankshim::link
