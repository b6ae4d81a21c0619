#pragma once

#include <boost/asio/io_context.hpp>
#include <list>
#include <memory>
#include <unordered_map>

#include "link/connection.h"
#include "link/link.h"

namespace rankshim::link {

/// Node 0: it listens on the master's port until all are here, then on a port of its own for those whose
/// connection was lost. What it knows and decides is the roster's; this is its sockets and its time.
class Hub final : public Link, public Connection::Owner {
 public:
  Hub(boost::asio::io_context& io, Options options);
  ~Hub() override;

  [[nodiscard]] const std::optional<Stop>& stop() const override { return roster_.stop(); }
  [[nodiscard]] std::vector<Node> nodes() const override { return roster_.nodes(); }
  [[nodiscard]] Waiting waiting() const override { return roster_.waiting(); }
  [[nodiscard]] std::optional<rlimit> inherited_limit() const override { return inherited_limit_; }

  void heard(Connection& connection, const Message& message, const Frame& frame) override;
  void ended(Connection& connection, const std::string& why) override;

 private:
  void send(const Message& message) override;
  boost::asio::awaitable<Met> gather(Time deadline) override;
  boost::asio::awaitable<void> part(bool well) override;
  boost::asio::awaitable<void> part_early() override;

  struct Member {
    std::shared_ptr<Connection> connection;
    std::unique_ptr<Hello> unproven;  ///< its hello, until it has proven the token
    bool proven = false;
  };

  boost::asio::awaitable<std::string> listen(Time deadline);
  boost::asio::awaitable<void> wait_for_verdict(Time deadline);
  boost::asio::awaitable<void> ask_other_node_0(Time deadline);
  boost::asio::awaitable<void> tell_those_to_come();
  boost::asio::awaitable<void> accept_from(std::weak_ptr<Link> weak, tcp::acceptor& acceptor,
                                           loop::Timer later);
  void add(tcp::socket socket);
  void greet(Member& member, const Hello& hello, const Frame& frame);
  void prove(Member& member, const Hello& hello);
  void limit(ConnectionId id);
  void drop_oldest();

  void process();
  void deliver(const Message& message);
  void launch();
  void set_timer();
  boost::asio::awaitable<void> farewell(bool of_all);

  Roster roster_;
  tcp::acceptor port_;
  tcp::acceptor way_back_;
  unsigned way_back_port_ = 0;
  std::optional<rlimit> inherited_limit_;
  std::unordered_map<ConnectionId, Member> members_;
  struct Limited {
    ConnectionId id;
    Time until;
  };
  std::list<Limited> limited_;  ///< they are to say who they are, or to close, until then; the oldest first
  ConnectionId last_id_ = myself;
  loop::Timer timer_;
  Time timer_at_ = Time::max();
  bool short_of_descriptors_ = false;
  bool warned_of_token_ = false;
  bool waits_for_port_ = false;
};

}  // namespace rankshim::link
