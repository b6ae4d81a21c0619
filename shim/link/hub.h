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
class Hub final : public Link, public Connection::Owner, public std::enable_shared_from_this<Hub> {
 public:
  Hub(boost::asio::io_context& io, Options options);
  ~Hub() override;

  void on_stop(std::function<void(const Stop&)> told) override;
  void report_failure(const Failure& failure) override { say({Fail{failure}}); }
  void report_stop(int signal) override { say({Stopping{signal}}); }
  [[nodiscard]] std::vector<Node> nodes() const override { return roster_.nodes(); }
  [[nodiscard]] Waiting waiting() const override { return roster_.waiting(); }

  [[nodiscard]] std::optional<rlimit> inherited_limit() const override { return inherited_limit_; }

  void heard(Connection& connection, const Frame& frame) override;
  void ended(Connection& connection, const std::string& why) override;

 private:
  boost::asio::awaitable<Met> gather(Time deadline) override;
  boost::asio::awaitable<JobEnd> part(Done done) override;
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
  void accept_from(tcp::acceptor& acceptor);
  void accept_again(tcp::acceptor& acceptor);
  void add(tcp::socket socket);
  void greet(Member& member, const Hello& hello, const Frame& frame);
  void prove(Member& member, const Hello& hello);
  void limit(ConnectionId id);
  void drop_oldest();

  void say(const Message& message);
  void process();
  void deliver(const Message& message);
  void launch();
  void set_timer();
  boost::asio::awaitable<void> farewell(bool of_all);

  boost::asio::io_context& io_;
  Options options_;
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
  loop::Timer accept_later_;
  Event changed_;
  std::optional<Message> verdict_;
  std::function<void(const Stop&)> told_;
  bool told_already_ = false;
  bool short_of_descriptors_ = false;
  bool warned_of_token_ = false;
  bool waits_for_port_ = false;
};

}  // namespace rankshim::link
