#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <list>
#include <unordered_map>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "link/link.h"

namespace rankshim::link {

namespace asio = boost::asio;
using namespace boost::asio::experimental::awaitable_operators;
using std::chrono::milliseconds;

namespace {

constexpr int backlog = 4096;
constexpr std::size_t most_unknown = 64;  // unproven connections beyond the job's own nodes
constexpr int most_at_once = 256;         // accepted before other events have their turn
constexpr milliseconds accept_pause{100};

/// Raises the soft limit of open files so that `needed` more can be opened, as far as the hard one allows.
/// Returns the limit that was; nothing if it stays as it is.
std::optional<rlimit> raise_descriptors(rlim_t needed) {
  constexpr rlim_t others = 64;  // of rankshim, and those that it inherited
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  needed += others;
  if (limit.rlim_max < needed)
    log::warn(
        "the link: this node may open {} files and needs {} for the connections of all nodes; raise the hard "
        "limit (ulimit -Hn)",
        limit.rlim_max, needed);
  if (limit.rlim_cur >= needed || limit.rlim_cur >= limit.rlim_max) return std::nullopt;
  const rlimit higher{std::min(needed, limit.rlim_max), limit.rlim_max};
  return setrlimit(RLIMIT_NOFILE, &higher) == 0 ? std::optional(limit) : std::nullopt;
}

/// Node 0: it listens on the master's port until all are here, then on a port of its own for those whose
/// connection was lost. What it knows and decides is the roster's; this is its sockets and its time.
class Hub final : public Link {
 public:
  Hub(asio::io_context& io, Options options)
      : Link(io, std::move(options)),
        roster_(options_.self, options_.rules, now()),
        port_(io),
        way_back_(io),
        timer_(io.get_executor()) {}

  ~Hub() override {
    if (inherited_limit_ && setrlimit(RLIMIT_NOFILE, &*inherited_limit_) != 0)
      log::debug("the limit of open files stays raised");
    for (auto& [id, member] : members_) member.connection->abandon();
  }

  [[nodiscard]] std::vector<Node> nodes() const override { return roster_.nodes(); }
  [[nodiscard]] Waiting waiting() const override { return roster_.waiting(); }
  [[nodiscard]] std::optional<rlimit> inherited_limit() const override { return inherited_limit_; }

 private:
  struct Member {
    std::shared_ptr<Connection> connection;
    std::unique_ptr<Hello> unproven;  ///< its hello, until it has proven the token
    bool proven = false;
  };
  struct Limited {
    ConnectionId id;
    Time until;
  };

  // ---- connections ----

  /// Returns why there is no listener; empty: there is one. When all start again, something of the attempt
  /// before may still have the port.
  asio::awaitable<std::string> listen(Time deadline) {
    inherited_limit_ = raise_descriptors(options_.self.nnodes + most_unknown);
    // The timers get their descriptors now: when a connection cannot be accepted, there may be none left.
    timer_.expires_at(Time::max());
    loop::Timer later(io_.get_executor(), Time::max()), way_back_later(io_.get_executor(), Time::max());
    for (bool waits = false; const auto error = open_listener(port_, options_.master.port, backlog);) {
      std::string why =
          fmt::format("cannot listen on the master's port {}: {}", options_.master.port, error.message());
      if (error != asio::error::address_in_use || options_.self.restarts == 0 || now() >= deadline)
        co_return why;
      if (!std::exchange(waits, true)) log::info("waiting to meet the other nodes again: {}", why);
      co_await changed_.wait(std::min(deadline, now() + options_.timing.retry));
    }
    const auto log_thrown = [](const std::exception_ptr& thrown) {
      if (thrown) std::rethrow_exception(thrown);  // the loop logs it
    };
    if (!open_listener(way_back_, 0, backlog)) {
      boost::system::error_code ignored;
      way_back_port_ = way_back_.local_endpoint(ignored).port();
      asio::co_spawn(io_, accept_from(weak_from_this(), way_back_, std::move(way_back_later)), log_thrown);
    }
    asio::co_spawn(io_, accept_from(weak_from_this(), port_, std::move(later)), log_thrown);
    co_return std::string();
  }

  /// Until the listener is closed. The hub may go while this waits. The loop itself must not accept: the
  /// command could start, and inherit the connection, before this knows of it.
  asio::awaitable<void> accept_from(std::weak_ptr<Link> weak, tcp::acceptor& acceptor, loop::Timer later) {
    boost::system::error_code error;
    while (!weak.expired() && acceptor.is_open()) {
      co_await acceptor.async_wait(tcp::acceptor::wait_read,
                                   asio::redirect_error(asio::use_awaitable, error));
      if (weak.expired() || error == asio::error::operation_aborted) co_return;
      for (int i = 0; i < most_at_once && !error; ++i) {
        tcp::socket socket(io_);
        acceptor.accept(socket, error);
        if (!error) add(std::move(socket));
      }
      if (!error || error == asio::error::would_block || error == asio::error::connection_aborted) continue;
      if (!std::exchange(short_of_descriptors_, true))
        log::warn("the link: a connection cannot be accepted yet: {}", error.message());
      later.expires_after(accept_pause);
      co_await later.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }

  void add(tcp::socket socket) {
    const ConnectionId id = ++last_id_;
    const auto connection = std::make_shared<Connection>(std::move(socket), *this, Connection::Side::hub, id);
    members_[id].connection = connection;
    limit(id);
    connection->start(options_.timeout);
    set_timer();
  }

  /// The connection has a while to say who it is, or to close.
  void limit(ConnectionId id) {
    limited_.push_back({id, now() + options_.timing.hello});
    if (limited_.size() > options_.self.nnodes + most_unknown) drop_oldest();
  }

  void drop_oldest() {
    const auto found = members_.find(limited_.front().id);
    limited_.pop_front();
    if (found == members_.end()) return;
    const auto connection = found->second.connection;
    connection->drop("it did not say in time who it is, or did not close");
  }

  void unlimit(ConnectionId id) {
    std::erase_if(limited_, [&](const Limited& entry) { return entry.id == id; });
  }

  void ended(Connection& connection, const std::string& why) override {
    const auto found = members_.find(connection.id());
    if (found == members_.end()) return;
    const Member member = std::move(found->second);
    members_.erase(found);
    unlimit(connection.id());
    if (member.proven) {
      log::debug("the link: connection {} of {} has ended: {}", connection.id(), connection.remote_address(),
                 why);
      roster_.gone(connection.id(), now());
    } else if (connection.broken() == Broken::store_client) {
      log::debug("the link: a client of torch's store at {} was sent away", connection.remote_address());
      roster_.store_client(connection.remote_address(), now());
    } else if (member.unproven && !std::exchange(warned_of_token_, true)) {
      log::warn("the link: {} at {} did not prove that it knows the job's token (--job-token-file)",
                node_name(member.unproven->rank, member.unproven->host), connection.remote_address());
    }
    process();
    changed_.signal();
  }

  void heard(Connection& connection, const Message& message, const Frame& frame) override {
    const auto found = members_.find(connection.id());
    if (found == members_.end()) return connection.abandon();
    Member& member = found->second;
    const auto* hello = std::get_if<Hello>(&message);
    if (hello != nullptr && !member.proven && !member.unproven) return greet(member, *hello, frame);
    if (std::holds_alternative<Proof>(message) && member.unproven) {
      const std::unique_ptr<Hello> first = std::move(member.unproven);
      return prove(member, *first);
    }
    if (!member.proven) return connection.drop("no hello");
    roster_.said(connection.id(), message, now());
    process();
    changed_.signal();
  }

  void greet(Member& member, const Hello& hello, const Frame& frame) {
    Connection& connection = *member.connection;
    Welcome welcome{.session = options_.self.instance,
                    .host = options_.self.host,
                    .address = connection.local_address(),
                    .seen = connection.remote_address(),
                    .port = way_back_port_};
    if (!options_.token) {
      connection.send(welcome);
      return prove(member, hello);
    }
    if (hello.nonce.empty()) {
      const std::string sentence = node_name(hello.rank, hello.host) +
                                   " has no token, and the job has one; set --job-token-file on all nodes";
      log::warn("the link: {}", sentence);
      connection.send(Refuse{exit_code::configuration, sentence});
      return connection.finish();
    }
    welcome.nonce = random_number();
    const std::string bytes = Frame{type_of(welcome), true, to_json(welcome)}.bytes();
    connection.use(options_.token->for_connection(frame.bytes(), bytes));
    connection.send(welcome);
    member.unproven = std::make_unique<Hello>(hello);
  }

  void prove(Member& member, const Hello& hello) {
    Connection& connection = *member.connection;
    if (hello.instance == options_.self.instance)
      return connection.finish();  // ask_other_node_0() led here
    member.proven = true;
    unlimit(connection.id());
    roster_.is_at(connection.local_address());
    roster_.arrived(connection.id(), hello, connection.remote_address(), now());
    process();
  }

  // ---- what the roster says ----

  void send(const Message& message) override {
    roster_.said(myself, message, now());
    process();
  }

  void process() {
    for (auto outgoing = roster_.take_outgoing(); !outgoing.empty(); outgoing = roster_.take_outgoing()) {
      for (const auto& [to, message, close] : outgoing) {
        const std::uint8_t type = message ? type_of(*message) : 0;
        const std::string body = message ? to_json(*message) : "";
        for (const ConnectionId id : to) {
          if (id == myself && message) take(*message);
          const auto found = members_.find(id);
          if (found == members_.end()) continue;
          const auto connection = found->second.connection;
          if (message) connection->send(type, body);  // which may end it
          if (!close) continue;
          connection->finish();
          limit(id);
        }
      }
    }
    set_timer();
    if (!roster_.ready()) return;
    asio::post(io_, [this, weak = weak_from_this()] {  // who said hello and has closed is read to its end first
      const auto self = weak.lock();
      if (self && roster_.ready()) launch();
    });
  }

  /// The port is free for the job's store from now on; a kernel that does not let it be bound while
  /// connections of it are open would keep the job from starting.
  void launch() {
    boost::system::error_code ignored;
    port_.close(ignored);
    if (tcp::acceptor store(io_); options_.self.nnodes == 1 || !bind_to(store, options_.master.port)) {
      roster_.launch();
    } else {
      roster_.end_meeting(no_link(fmt::format(
          "the master's port {} cannot be bound while connections of it are open", options_.master.port)));
    }
    process();
  }

  void set_timer() {
    Time next = roster_.next_tick();
    if (!limited_.empty()) next = std::min(next, limited_.front().until);
    if (next == timer_at_) return;
    timer_at_ = next;
    if (next == Time::max()) return timer_.cancel();
    timer_.expires_at(next);
    timer_.async_wait([this, weak = weak_from_this()](boost::system::error_code cancelled) {
      const auto self = weak.lock();
      if (!self || cancelled || now() < timer_at_) return;
      timer_at_ = Time::max();
      while (!limited_.empty() && limited_.front().until <= now()) drop_oldest();
      roster_.tick(now());
      process();
    });
  }

  // ---- the node's own story ----

  asio::awaitable<void> gather(Time deadline) override {
    if (const std::string why = co_await listen(deadline); !why.empty()) {
      met_ = no_link(why);
      co_return;
    }
    process();
    co_await (wait_for_verdict(deadline) || ask_other_node_0(deadline));
    if (launched()) co_return;
    if (std::get<Refuse>(*met_).code == exit_code::peer) co_await tell_those_to_come();
    boost::system::error_code ignored;
    port_.close(ignored);
    way_back_.close(ignored);
    co_await farewell(true);
  }

  asio::awaitable<void> wait_for_verdict(Time deadline) {
    while (!met_) {
      if (now() >= deadline) {
        roster_.give_up();
        process();
      } else {
        co_await changed_.wait(deadline);
      }
    }
  }

  /// If the master's name leads to another machine, another node of rank 0 may listen there. It refuses this
  /// one, and then neither can have the others. If the name leads here after all, as a Service's does, all is
  /// well. Never ends.
  asio::awaitable<void> ask_other_node_0(Time deadline) {
    if (options_.leads_elsewhere) {
      const Met met = co_await make_peer(io_, options_)->meet(deadline);
      const auto* refused = std::get_if<Refuse>(&met);
      if (refused != nullptr && refused->code == exit_code::configuration && !met_) {
        roster_.end_meeting(*refused);
        process();
      } else if (refused != nullptr && refused->code == 0) {
        log::debug("the link: the master's name leads to no other node 0 of this job: {}", refused->sentence);
      }
    }
    loop::Timer never(io_.get_executor(), Time::max());
    co_await never.async_wait(asio::use_awaitable);
  }

  /// Waits until the others have closed their connections (then no state of the connection stays at this
  /// port), or have said that they have ended; not for long, unless all start again.
  asio::awaitable<void> farewell(bool of_all) {
    const Time began = now();
    const auto until = [&] {
      return began + (stop_ && stop_->again ? options_.timing.end : options_.timing.farewell);
    };
    for (auto& [id, member] : members_)
      if (of_all) member.connection->finish();
    const auto all_gone = [&] {
      return members_.empty() ||
             (!of_all && roster_.all_ended() && std::ranges::none_of(members_, [](const auto& entry) {
               return entry.second.connection->unsent();
             }));
    };
    while (!all_gone() && now() < until()) co_await changed_.wait(until());
  }

  /// A node was asked to stop while all meet again. Those that come a moment later would look for this one
  /// until their time is over.
  asio::awaitable<void> tell_those_to_come() {
    const Time until = now() + options_.timing.leave;
    if (!port_.is_open()) co_await listen(until);
    while (port_.is_open() && !roster_.all_came() && now() < until) co_await changed_.wait(until);
  }

  asio::awaitable<void> part(bool /*well*/) override {
    if (!launched()) co_await tell_those_to_come();
    while (launched() && !is_over()) co_await changed_.wait(Time::max());
    co_await farewell(!stop_);
  }

  Roster roster_;
  tcp::acceptor port_;
  tcp::acceptor way_back_;
  unsigned way_back_port_ = 0;
  std::optional<rlimit> inherited_limit_;
  std::unordered_map<ConnectionId, Member> members_;
  std::list<Limited> limited_;  ///< they are to say who they are, or to close, until then; the oldest first
  ConnectionId last_id_ = myself;
  loop::Timer timer_;
  Time timer_at_ = Time::max();
  bool short_of_descriptors_ = false;
  bool warned_of_token_ = false;
};

}  // namespace

std::shared_ptr<Link> make_hub(asio::io_context& io, Options options) {
  return std::make_shared<Hub>(io, std::move(options));
}

}  // namespace rankshim::link
