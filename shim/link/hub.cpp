#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "link/link.h"
#include "link/wording.h"
#include "node/port_holder.h"
#include "wait/port.h"

namespace rankshim::link {

namespace asio = boost::asio;
using namespace boost::asio::experimental::awaitable_operators;
using std::chrono::milliseconds;

namespace {

constexpr std::size_t most_unknown = 64;  // unproven connections beyond the job's own nodes
constexpr rlim_t own_files = 64;          // of rankshim, including inherited ones
constexpr milliseconds accept_pause{100};
constexpr int name_rounds = 10;  // the factor by which looks for another hub become rarer once all run
constexpr milliseconds between_looks{20};  // for what was sent to reach the others' kernels

/// Raises the soft limit on open files, as far as the hard one allows, to what is needed for all nodes and
/// the strangers that are kept. Returns the previous limit; nullopt if it was not changed.
std::optional<rlimit> raise_descriptors(rlim_t nodes) {
  const rlim_t needed = nodes + most_unknown + own_files;
  const rlim_t wanted = needed + 3 * (nodes + most_unknown);  // unknown, rejected, or of another job
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::nullopt;
  if (limit.rlim_max < needed)
    log::warn(
        "the link: this node may open {} files and needs {} for the connections of all nodes; raise the hard "
        "limit (ulimit -Hn)",
        limit.rlim_max, needed);
  const rlimit higher{std::min(wanted, limit.rlim_max), limit.rlim_max};
  if (limit.rlim_cur >= higher.rlim_cur || setrlimit(RLIMIT_NOFILE, &higher) != 0) return std::nullopt;
  return limit;
}

/// The hub's side of the link; node 0 is the hub until another node takes over. Node 0 listens on the
/// master's port until all nodes are here, and then on another port, for nodes that lost their connection. If
/// the job may be restarted, that is the second port, which a node that was started anew knows. With spares,
/// every hub has its own listener all the time. The roster knows and decides everything; this class handles
/// sockets and time.
class Hub final : public Link {
 public:
  Hub(asio::io_context& io, Options options)
      : Link(io, std::move(options)),
        roster_(options_.self, options_.rules, now()),
        port_(io),
        own_reconnect_listener_(io),
        reconnect_listener_(options_.succession ? options_.succession->listener : own_reconnect_listener_),
        due_(io.get_executor()) {}

  ~Hub() override {
    if (inherited_limit_ && setrlimit(RLIMIT_NOFILE, &*inherited_limit_) != 0)
      log::debug("the limit of open files stays raised");
    for (auto& [id, connection] : connections_) connection->close(Closed::over);
  }

  void begin() {
    loop::spawn(io_, act(weak_from_this()));
    if (options_.succession) loop::spawn(io_, look_for_another_hub(weak_from_this(), options_));
  }
  [[nodiscard]] bool is_hub() const override { return true; }

  [[nodiscard]] std::vector<Node> nodes() const override { return roster_.nodes(); }
  [[nodiscard]] std::vector<Members::Tenure> history() const override { return roster_.members().history(); }
  [[nodiscard]] std::string waiting() const override {
    if (!launched()) return in_words(roster_.waiting());
    return is_finishing() ? in_words(roster_.running()) : "";
  }
  [[nodiscard]] std::optional<rlimit> inherited_limit() const override { return inherited_limit_; }

  asio::awaitable<void> look(LookMode mode) override {
    const auto self = shared_from_this();
    if (!launched() || is_over() || roster_.is_judging()) co_return;
    const Look question = roster_.ask(mode.full);
    gently_.clear();
    for (const Node& node : roster_.nodes())
      if (node.connection && node.connection != myself) gently_[*node.connection] = question;
    const milliseconds patience =
        options_.timing.look + (mode.gently ? ping_interval(options_.timeout) : milliseconds(0));
    const Time until = now() + patience;
    if (!mode.gently) ask_at_once();
    handle(question);
    while (!is_over() && !roster_.has_answers() && now() < until) co_await changed_.wait(until);
    gently_.clear();
  }

  std::vector<outcome::WorkerLook> take_looks() override { return roster_.take_looks(); }

  void end_job(const Culprit& culprit) override {
    roster_.end(culprit);
    process();
    due_.signal();
  }

  [[nodiscard]] Culprit located(Culprit culprit) const override {
    return roster_.located(std::move(culprit));
  }

 private:
  // ---- connections ----

  /// Listens on the master's port; throws the reason if that is impossible. What holds the port may go away:
  /// something of the previous attempt, or of another job on this machine. If it does not, the meeting ends.
  /// Until then the other nodes, which may reach that job's store, find this node at the second port.
  asio::awaitable<void> listen(Time deadline) {
    for (Time look = now(); const auto error = open_listener(port_, options_.master.port, longest_backlog);) {
      if (error != asio::error::address_in_use)
        throw boost::system::system_error(
            error, fmt::format("cannot listen on the master's port {}", options_.master.port));
      const bool is_over = now() >= deadline;
      if (is_over || now() >= look) {
        const Problem in_use{.kind = ProblemKind::port_in_use,
                             .detail = node::holder_of_port(options_.master.port),
                             .number = options_.master.port};
        look = now() + options_.rules.report;
        roster_.hinder(in_use, now());
        open_reconnect_listener(options_.second_port);
        if (is_over && !met_) {
          Refuse refuse = refusal(Cause::unreachable, in_use);
          refuse.error_code = ErrorCode::nodes_missing;
          roster_.end_meeting(refuse);
        }
        process();
        due_.signal();
        if (is_over) co_return;
      }
      co_await changed_.wait(std::min(deadline, now() + options_.timing.retry));
    }
    roster_.listens(now());
    open_reconnect_listener(options_.rules.decide ? options_.second_port : 0);
    loop::spawn(io_, accept_from(weak_from_this(), port_));
  }

  /// Listens on the port for nodes that lost their connection, unless it is already listening there.
  void open_reconnect_listener(std::uint16_t port) {
    if (accepts_reconnects_) return;
    if (!reconnect_listener_.is_open() && open_listener(reconnect_listener_, port, longest_backlog)) {
      if (const auto error = open_listener(reconnect_listener_, 0, longest_backlog))
        return log::warn("the link: a connection that is lost cannot be made again: {}", error.message());
    }
    accepts_reconnects_ = true;
    loop::spawn(io_, accept_from(weak_from_this(), reconnect_listener_));
  }

  /// Accepts connections until the listener is closed. Asio's own accept is not used: the command could
  /// start, and inherit the connection, before this knows of it.
  asio::awaitable<void> accept_from(std::weak_ptr<Link> weak, tcp::acceptor& acceptor) {
    const auto listener = options_.succession;           // outlives this link, as the wait may
    loop::Timer later(io_.get_executor(), Time::max());  // gets its descriptor while there are some
    boost::system::error_code error;
    while (true) {
      co_await acceptor.async_wait(tcp::acceptor::wait_read,
                                   asio::redirect_error(asio::use_awaitable, error));
      if (weak.expired() || error || !acceptor.is_open()) co_return;
      tcp::socket socket(io_);
      acceptor.accept(socket, error);
      try {
        if (!error) add(std::move(socket));
      } catch (const std::exception& thrown) {  // only this connection is lost
        loop::go_on_after(thrown);
      }
      if (!error || error == asio::error::would_block || error == asio::error::connection_aborted) continue;
      if (!std::exchange(short_of_descriptors_, true))
        log::warn("the link: a connection cannot be accepted yet: {}", error.message());
      later.expires_after(accept_pause);
      co_await later.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (weak.expired() || !acceptor.is_open()) co_return;
    }
  }

  void add(tcp::socket socket) {
    const ConnectionId id = ++last_id_;
    connections_[id] =
        std::make_shared<Connection>(std::move(socket), Connection::Side::hub, options_.timeout);
    let_expire(id);
    read_messages(id);
    due_.signal();
  }

  /// Gives the connection a while to say who it is, or to close.
  void let_expire(ConnectionId id) {
    expires_[id] = now() + options_.timing.hello;
    next_expiry_ = std::min(next_expiry_, expires_[id]);
    if (expires_.size() <= options_.self.nnodes + most_unknown) return;
    expires_.begin()->second = next_expiry_ = Time::min();
  }

  /// Closes those whose time is over. Returns when that of another one may be.
  Time close_late() {
    const Time time = now();
    if (time < next_expiry_) return next_expiry_;
    next_expiry_ = Time::max();
    std::erase_if(expires_, [&](const auto& one) {
      const auto& [id, until] = one;
      if (until > time) {
        next_expiry_ = std::min(next_expiry_, until);
        return false;
      }
      connections_.at(id)->close(Closed::late);
      return true;
    });
    return next_expiry_;
  }

  /// Reads the connection's messages until it ends. This is not a coroutine, which would take most of the
  /// memory that a node costs. A connection for which the system refuses something is closed, so that its
  /// node can connect again.
  void read_messages(ConnectionId id) {
    const auto connection = connections_.at(id);
    try {
      while (const auto heard = connection->take()) {
        const bool asks = std::holds_alternative<Ping>(heard->message) && !expires_.contains(id);
        if (asks && !connection->is_finishing()) {  // nothing else changes by it
          connection->send(Ping{});
          if (const auto question = gently_.extract(id)) connection->send(question.mapped());
          continue;
        }
        if (connection->is_finishing())
          connection->close(Closed::sent_away);
        else if (expires_.contains(id))
          greet(id, *connection, *heard);
        else
          roster_.received(id, heard->message, now());
        due_.signal();
      }
      if (connection->is_open())
        return connection->when_ready([this, weak = weak_from_this(), id] {
          if (const auto self = weak.lock()) read_messages(id);
        });
    } catch (const std::exception& error) {
      loop::go_on_after(error);
      connection->close(Closed::by_system, error.what());
    }
    ended(id, *connection);
  }

  void ended(ConnectionId id, const Connection& connection) {
    connections_.erase(id);
    expires_.erase(id);
    const auto listener = roster_.disconnected(
        id, now(),
        {.unheard = connection.unheard(),
         .silent = connection.why() == Closed::silent ? options_.timeout : milliseconds(0),
         .ended_by = connection.ended_by()});
    if (listener && shows_ends()) loop::spawn(io_, confirm_end(weak_from_this(), *listener));
    log::debug("the link: connection {} of {} has ended: {}", id, connection.remote_address(),
               in_words(connection.end()));
    if (const auto unproven = unproven_.extract(id)) {
      const Hello& hello = unproven.mapped();
      roster_.note_stranger(hello.rank, {.kind = ProblemKind::token_unproven, .node = name_of(hello)});
    }
    if (connection.broken() == StreamError::store_client)
      roster_.store_client(connection.remote_address(), now());
    if (connection.broken() == StreamError::version)
      roster_.note_stranger(std::nullopt,
                            {.kind = ProblemKind::version, .addresses = {connection.remote_address()}});
    due_.signal();
  }

  /// Asks until the node is back, or can no longer be. A process that ends closes its connection a moment
  /// before its listener.
  asio::awaitable<void> confirm_end(std::weak_ptr<Link> weak, ListenAddress listener) {
    const auto endpoint = endpoint_of(listener);
    if (weak.expired() || !endpoint) co_return;
    loop::Timer timer(io_.get_executor());
    const Time until = now() + options_.rules.ended;
    for (milliseconds pause{5}; now() < until; pause *= 2) {
      tcp::socket socket(io_);
      const auto look = co_await wait::connect(socket, *endpoint, until);
      if (weak.expired() || roster_.nodes()[listener.index].connection) co_return;
      if (look.state == wait::PortState::closed) {
        roster_.refused_connection(listener, now());
        co_return due_.signal();
      }
      timer.expires_after(pause);
      co_await timer.async_wait(asio::use_awaitable);
      if (weak.expired()) co_return;
    }
  }

  /// Handles the first messages, in which the other side says who it is and proves that it has the token.
  /// Until then it counts for nothing.
  void greet(ConnectionId id, Connection& connection, const ReceivedMessage& heard) {
    if (const auto unproven = unproven_.find(id); unproven != unproven_.end()) {
      if (!std::holds_alternative<Proof>(heard.message)) return connection.close(Closed::unproven);
      return arrived(id, connection, unproven_.extract(unproven).mapped());
    }
    if (!std::holds_alternative<Hello>(heard.message)) return connection.close(Closed::unnamed);
    Hello hello = std::get<Hello>(heard.message);
    hello.seen = connection.remote_address();
    const bool has_token = !hello.nonce.empty();
    if (has_token != options_.token.has_value()) return refuse_without_token(id, hello);
    const Welcome welcome = this->welcome(connection, hello);
    if (options_.token) connection.use(options_.token->for_connection(heard.line.text, to_text(welcome)));
    connection.send(welcome);
    if (options_.token)
      unproven_[id] = std::move(hello);
    else
      arrived(id, connection, hello);
  }

  /// Refuses a node that has no token although the job has one, or the other way round.
  void refuse_without_token(ConnectionId id, const Hello& hello) {
    const ProblemKind kind = options_.token ? ProblemKind::token_missing : ProblemKind::token_unexpected;
    const Problem problem{.kind = kind, .node = name_of(hello)};
    roster_.note_stranger(hello.rank, problem);
    const bool is_ours = hello.run == options_.self.run;
    deliver({{id}, is_ours ? Message(refusal(Cause::configuration, problem)) : Message(Stranger{problem})});
  }

  /// The answer to a hello. A node of another job does not learn this host's name.
  [[nodiscard]] Welcome welcome(const Connection& connection, const Hello& hello) const {
    boost::system::error_code ignored;
    return {.instance = options_.self.instance,
            .rank = options_.self.rank,
            .host = hello.run == options_.self.run ? options_.self.host : "",
            .port = reconnect_listener_.local_endpoint(ignored).port(),
            .pings = static_cast<std::uint32_t>(ping_interval(options_.timeout).count()),
            .seen = connection.remote_address(),
            .term = roster_.term(),
            .running = launched(),
            .nonce = options_.token ? random_number() : ""};
  }

  void arrived(ConnectionId id, const Connection& connection, const Hello& hello) {
    expires_.erase(id);
    roster_.set_address(connection.local_address());
    roster_.arrived(id, hello, now());
  }

  /// Asks those that were to be asked with the answer to their next ping.
  void ask_at_once() {
    for (const auto& [id, question] : std::exchange(gently_, {}))
      if (const auto found = connections_.find(id); found != connections_.end())
        found->second->send(question);
  }

  // ---- what the roster says ----

  asio::awaitable<void> act(std::weak_ptr<Link> weak) {
    while (!weak.expired()) co_await due_.wait(process());
  }

  void send(const Message& message) override {
    roster_.received(myself, message, now());
    process();
    due_.signal();
  }

  /// Does what the roster says and what is due. Returns when something is due next.
  Time process() {
    if (roster_.ready(now())) launch();
    const Time next = roster_.tick(now());
    for (const Outgoing& outgoing : roster_.take_outgoing()) deliver(outgoing);
    if (options_.succession)
      options_.succession->all_ended_by = std::max(options_.succession->all_ended_by, roster_.all_ended_by());
    changed_.signal();
    if (news_) news_();
    return std::min({next, close_late(), close_silent()});
  }

  /// Closes the connections of nodes that have sent nothing for --link-timeout, not even pings: the kernel
  /// keeps answering for a rankshim that is stopped. Counts rounds, so that a time in which this process
  /// itself was stopped is not taken for the others' silence. Returns when the next round is due.
  Time close_silent() {
    const bool looks = launched() || options_.succession;
    if (!looks || now() < next_round_) return looks ? next_round_ : Time::max();
    const auto late = std::chrono::duration_cast<milliseconds>(now() - next_round_);
    const bool slept = next_round_ != Time() && late > options_.timeout;
    roster_.slept(slept ? late : milliseconds(0));
    if (slept) due_.signal();
    next_round_ = now() + ping_interval(options_.timeout);
    for (const auto& [id, connection] : connections_)
      if (!expires_.contains(id) && connection->silent_rounds() > most_unanswered)
        connection->close(Closed::silent);
    return next_round_;
  }

  void deliver(const Outgoing& outgoing) {
    const std::string text = outgoing.message ? to_text(*outgoing.message) : "";
    for (const ConnectionId id : outgoing.to) {
      if (id == myself && outgoing.message) handle(*outgoing.message);
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      if (outgoing.message) found->second->send(text);
      if (!outgoing.closes()) continue;
      found->second->finish();
      let_expire(id);
    }
  }

  /// Launches all nodes, and frees the port for the job's store. A kernel that does not let it be bound while
  /// connections on it are open would keep the job from starting.
  void launch() {
    boost::system::error_code ignored;
    port_.close(ignored);
    tcp::acceptor store(io_);
    if (!roster_.hosts_master(now()) || !open_listener(store, options_.master.port, 0)) {
      const Time launched = now();
      roster_.launch(launched);
      const auto history = roster_.members().history();  // each rank's nodes are consecutive
      for (std::size_t at = 1; at < history.size(); ++at) {
        const Members::Tenure &before = history[at - 1], &tenure = history[at];
        if (tenure.since == launched && tenure.rank == before.rank)
          log::warn("{} has rank {} from now on; {} was {}", node_name(tenure.index, tenure.host),
                    tenure.rank, node_name(before.index, before.host), before.why);
      }
      return;
    }
    roster_.end_meeting(Unlinked{{.kind = ProblemKind::port_not_free, .number = options_.master.port}});
  }

  // ---- the node's own story ----

  void release() override { roster_.release(); }

  asio::awaitable<void> hold_meeting(Time deadline) override {
    deadline_ = deadline;
    inherited_limit_ = raise_descriptors(options_.self.nnodes);
    if (options_.succession) open_reconnect_listener(0);
    options_.self.rank == 0 ? co_await listen(deadline) : roster_.listens(now());
    roster_.give_up_at(deadline);
    due_.signal();
    if (options_.leads_elsewhere && !options_.succession)
      co_await (wait_for_verdict() || ask_other_node_0(deadline));
    co_await wait_for_verdict();
    if (!launched()) co_await wait_for_end(false);
  }

  asio::awaitable<void> wait_for_verdict() {
    while (!met_) co_await changed_.wait(Time::max());
  }

  /// If the master's name leads to another machine, asks whether another node with rank 0 listens there. That
  /// one would refuse this node, and then neither of them can have the others. If the name leads here after
  /// all, as a Service's does, all is well.
  asio::awaitable<void> ask_other_node_0(Time deadline) {
    const MeetingResult met = co_await make_peer(io_, options_)->meet(deadline);
    const auto* refuse = std::get_if<Refuse>(&met);
    if (refuse != nullptr && refuse->cause == Cause::configuration && !met_) {
      roster_.end_meeting(*refuse);
      due_.signal();
    } else if (std::holds_alternative<Unlinked>(met)) {
      log::debug("the link: the master's name leads to no other node 0 of this job: {}", in_words(met));
    }
  }

  /// Until the meeting is over, checks whether one of the nodes before this one on the list is already the
  /// hub, or any other node whose job runs: a network may have been partitioned, or a node slow. While all
  /// run, a hub that is not node 0 checks where the master's name leads, because new containers look for node
  /// 0 there.
  static asio::awaitable<void> look_for_another_hub(std::weak_ptr<Link> weak, Options options) {
    const std::shared_ptr<Succession> known = options.succession;
    const bool is_node_0 = options.self.rank == 0;
    loop::Timer timer(co_await asio::this_coro::executor);
    const auto hub = [&] { return std::static_pointer_cast<Hub>(weak.lock()); };
    for (milliseconds between = options.timing.other_hub;;) {
      boost::system::error_code error;
      timer.expires_after(between);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (!hub() || hub()->is_over() || (hub()->met_ && !hub()->launched())) co_return;
      const bool runs = hub()->launched();
      if (runs && is_node_0) co_return;
      if (runs) between = name_rounds * options.timing.other_hub;
      std::vector<ListenAddress> candidates = runs ? std::vector<ListenAddress>() : known->candidates;
      if (!is_node_0)
        std::ranges::copy(co_await where_the_name_leads(options), std::back_inserter(candidates));
      for (const ListenAddress& listener : candidates) {
        std::optional<Moved> found;
        if (listener.index != options.self.rank) found = co_await ask(options, listener);
        // The hub there must prove it.
        if (found && found->is_hearsay) found = co_await ask(options, found->hub);
        if (const auto self = hub(); self && found && !found->is_hearsay) self->yield(*found);
      }
    }
  }

  /// Asks who listens there: a hub to which this one yields, or somebody who says where the hub is
  /// (hearsay).
  static asio::awaitable<std::optional<Moved>> ask(Options options, ListenAddress listener) {
    options.scout = listener;
    const auto executor = co_await asio::this_coro::executor;
    auto& io = static_cast<asio::io_context&>(asio::query(executor, asio::execution::context));
    const MeetingResult found = co_await make_peer(io, options)->meet(now() + options.timing.scout);
    const auto* moved = std::get_if<Moved>(&found);
    if (moved == nullptr || moved->hub.index == options.self.rank) co_return std::nullopt;
    co_return *moved;
  }

  void yield(const Moved& other) {
    if (met_) return;
    roster_.end_meeting(other);
    process();
    due_.signal();
  }

  /// Where the master's name leads. A new container of node 0 that listens there yields to this
  /// hub, and sends its nodes on to it.
  static asio::awaitable<std::vector<ListenAddress>> where_the_name_leads(const Options& options) {
    wait::Limits limits = options.dns;
    limits.timeout = options.timing.other_hub;
    limits.is_quiet = true;
    wait::MasterTarget name;
    name.host = options.master.host;
    name.port = options.master.port;
    name.until = wait::Until::name;
    const wait::Result found = co_await wait::wait_for(name, limits);
    const auto* reached = std::get_if<wait::Reached>(&found);
    std::vector<ListenAddress> candidates;
    if (reached == nullptr || reached->mine) co_return candidates;
    for (const std::string& address : reached->addresses)
      for (const unsigned port : {unsigned{options.master.port}, unsigned{options.second_port}})
        candidates.push_back({.index = 0, .address = address, .port = port});
    co_return candidates;
  }

  /// When the job is over, waits until the others have closed their connections (so that no connection state
  /// is left at this port) or, if the job was stopped, have said that they have ended; not for long, unless
  /// all start again. But every node is told how the job ended, unless this one was stopped: one that lost
  /// its connection may reconnect, and the kernel may still be sending. Otherwise it would believe that this
  /// node was lost.
  asio::awaitable<void> wait_for_end(bool /*succeeded*/) override {
    while (launched() && !is_over()) co_await changed_.wait(Time::max());
    const auto* refuse = met_ ? std::get_if<Refuse>(&*met_) : nullptr;
    if (refuse != nullptr && refuse->culprit) co_await tell_those_to_come();
    process();  // sends what is still to be sent
    boost::system::error_code ignored;
    port_.close(ignored);
    if (met_ && !launched()) own_reconnect_listener_.close(ignored);
    for (const Time began = now();;) {
      if (!stop_)
        for (auto& [id, connection] : connections_) connection->finish();
      const bool starts_again = stop_ && stop_->again;
      const bool all_ended = connections_.empty() || (stop_ && roster_.all_ended());
      // Before all start again, it is time to ask each connection once all have ended.
      const bool told = (starts_again && !all_ended) || all_are_told();
      if (told && all_ended) break;
      const milliseconds to_tell = told ? options_.timing.farewell : options_.timeout + options_.rules.relink;
      const Time until = began + (starts_again ? options_.timing.end : to_tell);
      if (now() >= until) break;
      co_await wait_for_change(told ? until : std::min(until, now() + between_looks), [this] {
        Waiting waiting = roster_.running();
        if (waiting.running.empty()) waiting.what = WaitingFor::all_told;
        return waiting;
      });
    }
  }

  /// Whether each node has what it was sent, or nobody waits for that.
  [[nodiscard]] bool all_are_told() const {
    if (!launched() || is_stopping()) return true;
    const auto has_heard = [](const auto& entry) { return !entry.second->unheard(); };
    return !roster_.awaits_return(now()) && std::ranges::all_of(connections_, has_heard);
  }

  /// After a node has failed or was stopped during the meeting, tells those that come a moment later, which
  /// would otherwise look for this node until their time is up. After the meeting's own deadline nobody would
  /// have been admitted.
  asio::awaitable<void> tell_those_to_come() {
    const milliseconds patience = is_stopping() ? options_.timing.leave : options_.timing.late;
    const Time until = std::min(deadline_, now() + patience);
    if (!port_.is_open() && options_.self.rank == 0) co_await listen(until);
    while (port_.is_open() && !roster_.all_came() && now() < until) co_await changed_.wait(until);
  }

  Roster roster_;
  tcp::acceptor port_;
  tcp::acceptor own_reconnect_listener_;
  tcp::acceptor& reconnect_listener_;  ///< this one, or with spares the one that is always open
  bool accepts_reconnects_ = false;
  std::optional<rlimit> inherited_limit_;
  std::unordered_map<ConnectionId, std::shared_ptr<Connection>> connections_;
  std::map<ConnectionId, Time> expires_;  ///< they are to say who they are, or to close, until then
  Time next_expiry_ = Time::max();        ///< none of these moments is before it
  std::unordered_map<ConnectionId, Hello> unproven_;  ///< they must still prove the token
  std::map<ConnectionId, Look> gently_;               ///< to be asked with the answer to their next ping
  ConnectionId last_id_ = myself;
  Time deadline_ = Time::max();  ///< of the meeting
  loop::Event due_;              ///< for act()
  Time next_round_;              ///< of close_silent()
  bool short_of_descriptors_ = false;
};

}  // namespace

std::shared_ptr<Link> make_hub(asio::io_context& io, Options options) {
  auto hub = std::make_shared<Hub>(io, std::move(options));
  hub->begin();
  return hub;
}

}  // namespace rankshim::link
