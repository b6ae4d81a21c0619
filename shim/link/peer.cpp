#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "link/link.h"
#include "link/wording.h"
#include "wait/port.h"
#include "wait/schedule.h"

namespace rankshim::link {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using namespace boost::asio::experimental::awaitable_operators;
using std::chrono::milliseconds;

namespace {

/// Whether the two sides of a connection are alive: whether node 0 is awake, and whether this node was.
struct Liveness {
  bool answers = false;  ///< node 0 answers pings
  unsigned unanswered = 0;
  milliseconds slept{0};  ///< for how long this process did not run (SIGSTOP); 0 if it did

  [[nodiscard]] bool is_silent() const { return unanswered == most_unanswered; }
};

/// The side of any node but the hub: it connects to the hub, and reconnects if the connection is lost.
class Peer final : public Link {
 public:
  Peer(asio::io_context& io, Options options)
      : Link(io, std::move(options)),
        master_(host_port(options_.master.host, std::to_string(options_.master.port))),
        schedule_(options_.dns.timing, options_.self.nnodes),
        random_(static_cast<unsigned>(std::hash<std::string>()(options_.self.instance))) {
    options_.master.until = wait::Until::name;
    options_.dns.nodes = options_.self.nnodes;
  }

  ~Peer() override {
    if (connection_) connection_->close(Closed::over);
  }

 private:
  // ---- one connection ----

  /// Whether this is a hub that only asks who answers.
  [[nodiscard]] bool is_scout() const {
    return options_.scout || (options_.succession ? options_.succession->is_led_by(options_.self.rank)
                                                  : options_.self.rank == 0);
  }

  /// What an attempt to connect has come to.
  enum class Contact : std::uint8_t {
    none,     ///< nobody answers, or node 0 in trouble: paused, throttled, behind a proxy, large packets lost
    closed,   ///< the kernel refuses the connection, because nobody listens
    store,    ///< torch's store answers
    settled,  ///< the hub has welcomed this node, or sent it away
  };

  asio::awaitable<Contact> connect(tcp::endpoint endpoint, Time deadline) {
    tcp::socket socket(io_);
    const wait::PortProbe look = co_await wait::connect(
        socket, endpoint, std::min(deadline, now() + options_.dns.timing.connect_timeout));
    if (look.state != wait::PortState::open) {
      reason_ = Problem{.kind = ProblemKind::no_connection, .probe = look};
      co_return look.state == wait::PortState::closed ? Contact::closed : Contact::none;
    }
    co_return co_await greet(
        std::make_shared<Connection>(std::move(socket), Connection::Side::peer, options_.timeout), deadline);
  }

  asio::awaitable<Contact> greet(std::shared_ptr<Connection> connection, Time deadline) {
    const std::string hello = to_text(hello_for(*connection));
    connection->send(hello);
    const Time until = tries_successor_ ? now() + options_.timing.successor : now() + options_.timing.welcome;
    loop::Timer timer(io_.get_executor(), std::min(deadline, until));
    const auto first = co_await (connection->next() || timer.async_wait(loop::quietly));
    if (first.index() != 0) {
      reason_ = Problem{.kind = ProblemKind::no_answer};
      co_return Contact::none;
    }
    const auto& reply = std::get<0>(first);
    co_return reply ? handle_reply(connection, *reply, hello) : explain_silence(*connection);
  }

  /// What this node says about itself.
  [[nodiscard]] Hello hello_for(const Connection& connection) const {
    Hello hello = options_.self;
    if (options_.succession) hello.term = options_.succession->term;  // it may have heard one since
    hello.running = launched();
    hello.leads = options_.scout.has_value();
    hello.address = connection.local_address();
    if (options_.token) hello.nonce = random_number();
    const Culprit* told = reported_failure();
    if (told == nullptr) told = reported_stop();
    if (told != nullptr && !launched()) hello.failure = *told;
    return hello;
  }

  /// Handles the first message.
  Contact handle_reply(const std::shared_ptr<Connection>& connection, const ReceivedMessage& reply,
                       const std::string& hello) {
    const auto* welcome = std::get_if<Welcome>(&reply.message);
    const bool is_sent_away = sends_away(reply.message);
    if (leads_on(reply.message)) {
      sent_away(reply.message, *connection);  // without a proof, too: the hub elsewhere must prove itself
      return Contact::settled;
    }
    std::optional<Problem> problem = options_.token ? prove(*connection, reply, hello) : std::nullopt;
    if (problem && !is_scout()) {
      reason_ = hub_rejection_ = problem;
      return Contact::none;  // anybody could say that
    }
    if (!problem && welcome != nullptr) problem = problem_of(*connection, *welcome);
    if (problem)
      sent_away(refusal(Cause::configuration, *problem), *connection);
    else if (welcome != nullptr)
      welcomed(connection, *welcome);
    else if (is_sent_away)
      sent_away(reply.message, *connection);
    else
      return explain_silence(*connection);
    return Contact::settled;
  }

  /// Notes why neither a welcome nor a message that sends this node away has come.
  Contact explain_silence(const Connection& connection) {
    const StreamError broken = connection.broken();
    if (broken == StreamError::version) {
      handle(Unlinked{{.kind = ProblemKind::version}});
      return Contact::settled;
    }
    reason_ = Problem{.kind = ProblemKind::hangs_up};
    if (broken == StreamError::store) reason_->kind = ProblemKind::store_there;
    if (broken == StreamError::other) reason_->kind = ProblemKind::other_there;
    return broken == StreamError::store ? Contact::store : Contact::none;
  }

  /// Whether the search goes on elsewhere, because the hub is there, or because whoever answered must not be
  /// asked again.
  [[nodiscard]] bool leads_on(const Message& message) const {
    const bool is_new_here = tries_successor_ && std::holds_alternative<Stranger>(message);
    return options_.succession && !launched() && (std::holds_alternative<Moved>(message) || is_new_here);
  }

  /// Proves the token to a hub that has proven it; otherwise returns why the hub has not.
  std::optional<Problem> prove(Connection& connection, const ReceivedMessage& reply,
                               const std::string& hello) {
    if (sends_away(reply.message))
      return Problem{.kind = ProblemKind::unproven_hub,
                     .addresses = {connection.remote_address()},
                     .because = {why_sent_away(reply.message)}};
    const auto* welcome = std::get_if<Welcome>(&reply.message);
    if (welcome == nullptr) return std::nullopt;
    const NodeName hub{welcome->rank, welcome->host, connection.remote_address()};
    if (welcome->nonce.empty() || reply.line.tag.empty())
      return Problem{.kind = ProblemKind::hub_without_token, .node = hub};
    connection.use(options_.token->for_connection(hello, reply.line.text));
    if (!connection.check(reply.line)) return Problem{.kind = ProblemKind::other_token, .node = hub};
    connection.send(Proof{});
    return std::nullopt;
  }

  /// Why the hub that welcomed this node is not this node's hub; nullopt if it is.
  [[nodiscard]] std::optional<Problem> problem_of(const Connection& connection,
                                                  const Welcome& welcome) const {
    const NodeName hub{welcome.rank, welcome.host, connection.remote_address()};
    if (welcome.instance == options_.self.instance) return Problem{.kind = ProblemKind::itself};
    if (welcome.rank >= options_.self.nnodes)
      return Problem{.kind = ProblemKind::impossible_hub, .node = hub, .most = options_.self.nnodes};
    const bool is_new = launched() && welcome.instance != welcome_->instance;
    if (is_new) return Problem{.kind = ProblemKind::hub_restarted, .node = hub};
    return std::nullopt;
  }

  void welcomed(const std::shared_ptr<Connection>& connection, const Welcome& welcome) {
    if (options_.scout) return scouted(welcome);
    welcome_ = welcome;
    reconnect_endpoint_ = {ip::make_address(connection->remote_address()),
                           static_cast<std::uint16_t>(welcome.port)};
    connection_ = connection;
    for (const Message& message : reported_) connection->send(message);
    loop::spawn(io_, listen(weak_from_this(), connection, milliseconds(welcome.pings)));
  }

  /// Handles the answer of another hub. A hub yields to one whose job runs, and to one that comes before it
  /// on the list.
  void scouted(const Welcome& welcome) {
    const Succession& known = *options_.succession;
    const unsigned term = known.term ? known.term->last.number : 0;
    const auto place = [&](unsigned index) {
      return std::ranges::find(known.candidates, index, &ListenAddress::index);
    };
    const bool goes_before = place(welcome.rank) < place(options_.self.rank);
    ListenAddress listener = *options_.scout;
    listener.index = welcome.rank;
    if (welcome.term >= term && term != 0 && (welcome.running || goes_before))
      met_ = Moved{listener};
    else
      met_ = Unlinked{{.kind = ProblemKind::another_hub,
                       .node = NodeName{.rank = welcome.rank, .host = welcome.host, .address = {}}}};
  }

  /// Why a message sends this node away.
  static Problem why_sent_away(const Message& message) {
    if (const auto* stranger = std::get_if<Stranger>(&message)) return stranger->why;
    if (const auto* unlinked = std::get_if<Unlinked>(&message)) return unlinked->why;
    if (const auto* moved = std::get_if<Moved>(&message))
      return {.kind = ProblemKind::another_hub,
              .node = NodeName{.rank = moved->hub.index, .host = {}, .address = {}}};
    const auto& refuse = std::get<Refuse>(message);
    if (refuse.culprit) return {.kind = ProblemKind::failed, .culprit = refuse.culprit};
    const auto& problems = refuse.roll_call.problems.first;
    return problems.empty() ? Problem{.kind = ProblemKind::nodes_missing} : problems.front();
  }

  /// Handles a message with which the hub, or who is taken for it, sends this node away.
  void sent_away(const Message& message, const Connection& hub) {
    reason_ = why_sent_away(message);
    const auto* moved = std::get_if<Moved>(&message);
    const bool is_stranger = std::holds_alternative<Stranger>(message);
    if (leads_on(message)) {
      if (is_scout()) return handle(Moved{moved->hub, true});
      answered_as_stranger_ = is_stranger;
      return take_hint(moved == nullptr ? nullptr : &moved->hub);
    }
    // When asking about another node 0, a hub that does not welcome this one belongs to another job.
    if (is_scout() && (!connection_ || is_stranger)) return handle(Unlinked{*reason_});
    if (is_stranger && !launched()) return avoid(hub.remote_address());
    if (launched()) lose({});
    if (moved != nullptr)  // but this node's job has no spares
      handle(refusal(Cause::unreachable, *reason_));
    else
      handle(message);
  }

  /// Goes where the hub is, according to somebody who is not the hub; null if that one does not know it.
  void take_hint(const ListenAddress* hub) {
    Succession& known = *options_.succession;
    const bool is_new = hub != nullptr && hub->index != options_.self.rank &&
                        !known.gone.contains(hub->index) && !known.unreachable.contains(hub->index);
    if (is_new && !known.is_led_by(hub->index)) log::info("node {} coordinates the job", hub->index);
    if (is_new) known.leader = *hub;
    got_hint_ = is_new;
  }

  /// Avoids a hub of another job, whose address may be left over in a name server: this node's hub is
  /// elsewhere, or will be there in a moment. Until then, a torch store there belongs to the other job too.
  void avoid(const std::string& address) {
    foreign_address_ = address;
    hub_rejection_ = reason_;
    welcome_.reset();
    reconnect_endpoint_ = {};
    const std::string why = in_words(*reason_);
    if (reports_.allows(why)) log::warn("waiting for node 0 at {}: {}", master_, why);
  }

  /// Handles the hub's messages until the connection ends, and then looks for the hub again while the command
  /// runs.
  asio::awaitable<void> listen(std::weak_ptr<Link> weak, std::shared_ptr<Connection> connection,
                               milliseconds pings) {
    const auto liveness = std::make_shared<Liveness>(Liveness{.answers = pings != milliseconds(0)});
    milliseconds interval = ping_interval(options_.timeout);
    if (pings != milliseconds(0)) interval = std::min(interval, std::max(pings, shortest_ping_interval));
    // Votes are counted during the meeting, and a node that cannot be reached must not have one.
    if (options_.succession) loop::spawn(io_, ask(connection, interval, liveness));
    while (const auto heard = co_await connection->next()) {
      liveness->unanswered = 0;
      if (sends_away(heard->message)) {
        sent_away(heard->message, *connection);
        connection->close(Closed::sent_away);
        continue;
      }
      handle(heard->message);
      const auto* go = std::get_if<Go>(&heard->message);
      const auto* voters = std::get_if<Voters>(&heard->message);
      if (go != nullptr && go->lead) vote(go->lead->ballot, *connection);
      if (voters != nullptr) vote(voters->ballot, *connection);
      const auto is_done = [](const Message& said) { return std::holds_alternative<Done>(said); };
      if (std::holds_alternative<End>(heard->message) && !is_spare() &&
          std::ranges::none_of(reported_, is_done))
        log::warn("node {} exited 0 and was then stopped; the nodes are no longer linked", welcome_->rank);
      if (go != nullptr && !options_.succession) loop::spawn(io_, ask(connection, interval, liveness));
      if (go != nullptr && options_.succession) {
        options_.succession->hub = welcome_->rank;
        options_.succession->hub_host = welcome_->host;
      }
    }
    const auto self = weak.lock();
    if (!self || connection_ != connection) co_return;
    connection_ = nullptr;
    if (connection->why() != Closed::sent_away) reason_ = connection->end();
    changed_.signal();
    if (!launched() || is_over()) co_return;
    log::debug("the link to node {} has ended ({}); connecting again", welcome_->rank, in_words(*reason_));
    const bool is_direct = welcome_->seen == connection->local_address();  // no proxy is between
    const EndedBy ended_by = is_direct ? connection->ended_by() : EndedBy::nothing;
    const milliseconds patience = options_.rules.time_to_return(ended_by, options_.self.nnodes);
    const Time until = now() + patience;
    try {
      co_await seek(until, ended_by);
    } catch (const std::exception& error) {
      reason_ = Problem{.detail = error.what()};
    }
    // If this node did not run, the hub has closed the connection, and may live.
    if (options_.succession)
      options_.succession->hub_has_ended = ended_by != EndedBy::nothing && liveness->slept == milliseconds(0);
    if (!connection_ && !is_over()) lose(now() < until ? std::nullopt : std::optional(patience), *liveness);
  }

  /// Answers a ballot, which is a vote, unless this node has heard of a later term.
  void vote(const Ballot& ballot, Connection& hub) const {
    const bool has_heard =
        options_.succession && options_.succession->term && options_.succession->term->last == ballot.term;
    if (has_heard) hub.send(Heard{ballot.term.number});
  }

  /// Asks node 0 now and then whether it is awake, which also shows node 0 that this node is, and keeps a
  /// proxy from closing the connection. Closes the connection after several pings without an answer. A time
  /// in which this process itself was stopped is not taken for node 0's silence.
  static asio::awaitable<void> ask(std::shared_ptr<Connection> connection, milliseconds interval,
                                   std::shared_ptr<Liveness> liveness) {
    loop::Timer timer(co_await asio::this_coro::executor);
    while (connection->is_open()) {
      const Time due = now() + interval;
      timer.expires_at(due);
      co_await timer.async_wait(asio::use_awaitable);
      const auto late = std::chrono::duration_cast<milliseconds>(now() - due);
      const bool slept = late > most_unanswered * interval;
      if (slept || connection->is_open()) liveness->slept = slept ? late : milliseconds(0);
      if (liveness->is_silent()) co_return connection->close(Closed::silent);
      connection->send(Ping{});
      if (liveness->answers) ++liveness->unanswered;
    }
  }

  // ---- meeting ----

  asio::awaitable<void> hold_meeting(Time deadline) override {
    if (options_.self.restarts == 0)  // otherwise all would come at the same moment
      co_await pause(milliseconds(options_.self.nnodes / 4), deadline);
    if (options_.scout) {
      if (const auto endpoint = endpoint_of(*options_.scout)) co_await connect(*endpoint, deadline);
      if (!met_) met_ = Unlinked{reason_.value_or(Problem())};
      co_return;
    }
    if (options_.succession && !is_scout()) loop::spawn(io_, redirect_callers(weak_from_this()));
    while (!met_ && now() < deadline) {
      if (options_.succession && options_.succession->is_known())
        co_await seek_successor(deadline);
      else
        co_await seek(deadline);
      // Node 0 may have started a little later, and its verdict is the one that counts.
      const Time last = deadline + options_.timing.verdict;
      while (connection_ && !met_ && now() < last) co_await changed_.wait(last);
      const auto between = foreign_address_.empty() ? options_.timing.retry : between_strangers();
      if (!met_ && !std::exchange(got_hint_, false))
        co_await pause(between, deadline);  // whatever welcomes this node may close every time
    }
    if (!met_) met_ = not_met();
    if (connection_ && !launched()) connection_->close(Closed::over);
  }

  /// Why this node has not met the others, when the time for it is over.
  [[nodiscard]] Refuse not_met() const {
    const bool may_move = options_.succession && options_.succession->is_known();
    HubNotMet unmet{.master = may_move ? "" : master_, .last = reason_, .waiting = waits_for(), .name = {}};
    if (connection_) {
      unmet.state = HubNotMet::State::waits;
    } else if (welcome_) {
      unmet.state = HubNotMet::State::disconnected;
    } else if (reason_) {
      unmet.state = HubNotMet::State::not_reached;
      if (hub_rejection_) unmet.last = hub_rejection_;
    }
    return {.cause = Cause::unreachable, .roll_call = {}, .culprit = {}, .hub = std::move(unmet)};
  }

  /// Looks for the hub's successor, the first reachable node of the list, which may be this one. A node that
  /// refuses the connection has ended; one that accepts it but does not answer is still ending its command.
  asio::awaitable<void> seek_successor(Time deadline) {
    Succession& known = *options_.succession;
    milliseconds next(10 + options_.self.nnodes / 16);
    std::optional<unsigned> tried_again;
    while (now() < deadline && !is_over() && !met_) {
      const ListenAddress* const listener = known.next();
      if (listener == nullptr) {
        known.unreachable.clear();
        co_await pause(next, deadline);
        next = std::min(2 * next, options_.timing.retry + milliseconds(options_.self.nnodes / 4));
        continue;
      }
      if (listener->index == options_.self.rank) {  // this node becomes the hub, with another link
        met_ = Moved{*listener};
        co_return;
      }
      const ListenAddress tried = *listener;
      const auto endpoint = endpoint_of(tried);
      tries_successor_ = true;
      answered_as_stranger_ = got_hint_ = false;
      const Contact contact = endpoint ? co_await connect(*endpoint, deadline) : Contact::none;
      tries_successor_ = false;
      if (connection_ || met_) co_return;
      if (got_hint_) {
        known.unreachable.insert(tried.index);
        continue;
      }
      // It may have ended while this node waited for it; it then refuses the next connection.
      if (contact == Contact::none && std::exchange(tried_again, tried.index) != tried.index) continue;
      known.unreachable.insert(tried.index);
      if (contact == Contact::closed || answered_as_stranger_) known.refused.insert(tried.index);
    }
  }

  /// Tells those that take this node for the hub where the hub is. While the hub is out of reach they wait,
  /// because this node may become the next one.
  asio::awaitable<void> redirect_callers(std::weak_ptr<Link> weak) {
    const std::shared_ptr<Succession> known = options_.succession;
    const auto asking = std::make_shared<unsigned>(0);
    loop::Timer later(io_.get_executor());
    const milliseconds retry = options_.timing.retry;
    while (true) {
      boost::system::error_code error;
      co_await known->listener.async_wait(tcp::acceptor::wait_read,
                                          asio::redirect_error(asio::use_awaitable, error));
      if (error || weak.expired() || is_over() || (met_ && !launched())) co_return;
      if (answer_one(known->listener, asking)) continue;
      later.expires_after(retry);
      co_await later.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }

  /// Answers one of those that connect; false if the next one must wait. `asking` counts those that are being
  /// answered.
  bool answer_one(tcp::acceptor& acceptor, const std::shared_ptr<unsigned>& asking) {
    constexpr unsigned most_asking = 16;
    const Succession& known = *options_.succession;
    const bool knows_hub = connection_ && !known.gone.contains(welcome_->rank);
    if ((!knows_hub && known.term) || *asking == most_asking) return false;
    tcp::socket socket(io_);
    boost::system::error_code error;
    acceptor.accept(socket, error);
    if (error) return error == asio::error::would_block || error == asio::error::connection_aborted;
    Message answer =
        Stranger{{.kind = ProblemKind::not_the_hub,
                  .node = NodeName{.rank = options_.self.rank, .host = options_.self.host, .address = {}}}};
    if (knows_hub)
      answer = Moved{{.index = welcome_->rank,
                      .address = reconnect_endpoint_.address().to_string(),
                      .port = welcome_->port}};
    const auto connection =
        std::make_shared<Connection>(std::move(socket), Connection::Side::hub, options_.timeout);
    connection->send(answer);
    ++*asking;
    loop::spawn(io_, let_go(connection, options_.timing.farewell, asking));
    return true;
  }

  /// Closes the connection, after a moment in which the other side can read what it was sent.
  static asio::awaitable<void> let_go(std::shared_ptr<Connection> connection, milliseconds patience,
                                      std::shared_ptr<unsigned> asking) {
    connection->finish();
    loop::Timer timer(co_await asio::this_coro::executor, now() + patience);
    co_await (hear_out(*connection) || timer.async_wait(loop::quietly));
    connection->close(Closed::sent_away);
    --*asking;
  }
  static asio::awaitable<void> hear_out(Connection& connection) {
    while (co_await connection.next()) {
    }
  }

  [[nodiscard]] Refuse out_of_reach(const wait::Unreachable& name) const {
    return {.cause = Cause::unreachable,
            .roll_call = {},
            .culprit = {},
            .error_code = name.error_code,
            .hub = HubNotMet{.state = HubNotMet::State::not_found,
                             .master = master_,
                             .last = hub_rejection_,
                             .waiting = {},
                             .name = name}};
  }

  /// Whether a hub that ended the connection like that, and then refuses another one, has certainly ended. A
  /// firewall might do both, but sends RST; then only a worker that has lost a peer shows it.
  [[nodiscard]] bool confirms_end(EndedBy ended_by) const {
    return (shows_ends() && ended_by == EndedBy::fin) || (ended_by != EndedBy::nothing && may_be_victim());
  }

  /// What the attempts at several addresses have come to.
  struct Contacts {
    bool settled = false;
    bool store = false;  ///< torch's store answers, and not at the address where another job's was
    bool closed = false;
  };

  asio::awaitable<Contacts> connect_to_each(const std::vector<std::string>& addresses, std::uint16_t port,
                                            Time deadline) {
    Contacts contacts;
    for (const std::string& address : addresses) {
      const Contact contact = co_await connect({ip::make_address(address), port}, deadline);
      contacts.settled = contact == Contact::settled;
      if (contacts.settled) break;
      contacts.store = contacts.store || (contact == Contact::store && address != foreign_address_);
      contacts.closed = contacts.closed || contact == Contact::closed;
    }
    co_return contacts;
  }

  /// The master's addresses; none if the meeting is over because there are none.
  asio::awaitable<std::vector<std::string>> look_up(Time deadline) {
    options_.dns.timeout = std::chrono::ceil<milliseconds>(deadline - now());
    const wait::Result found = co_await wait::wait_for(options_.master, options_.dns);
    if (const auto* unreachable = std::get_if<wait::Unreachable>(&found)) {
      handle(out_of_reach(*unreachable));
      co_return std::vector<std::string>{};
    }
    std::vector<std::string> addresses = std::get<wait::Reached>(found).addresses;
    if (const auto at = std::ranges::find(addresses, foreign_address_); at != addresses.end())
      std::rotate(at, at + 1, addresses.end());  // to be tried last
    co_return addresses;
  }

  /// Looks for the hub until the meeting has ended or there is a connection: until the launch, where the
  /// master's name leads; also where the last hub listens for reconnects. `ended_by`: how the hub's kernel
  /// ended the last connection; if it then refuses another one, the search may end early.
  asio::awaitable<void> seek(Time deadline, EndedBy ended_by = EndedBy::nothing) {
    const milliseconds longest = options_.timing.retry + milliseconds(options_.self.nnodes / 4);
    // Node 0 begins to listen a moment after the others have started, or after it has closed the connections.
    milliseconds next(10 + options_.self.nnodes / 16);
    const auto between_look_ups = schedule_.between_checks(options_.dns.timing.search_interval);
    std::vector<std::string> addresses;  // none after the launch: the master's port is then torch's
    if (!launched()) addresses = std::exchange(options_.addresses, {});
    Time looked_up = now();
    while (now() < deadline && !is_over()) {
      if (!launched() && (addresses.empty() || now() - looked_up > between_look_ups)) {
        addresses = co_await look_up(deadline);
        if (addresses.empty()) co_return;
        looked_up = now();
      }
      const Contacts at_master = co_await connect_to_each(addresses, options_.master.port, deadline);
      if (at_master.settled) co_return;
      // Node 0 waits for the port if another job's store has it. If nobody has, node 0 may be running, and
      // then listens on the second port if the job may be restarted.
      const bool may_be_elsewhere = at_master.store || (at_master.closed && options_.rules.decide);
      if (may_be_elsewhere && options_.second_port != 0) {
        const std::optional<Problem> reason = reason_;
        if ((co_await connect_to_each(addresses, options_.second_port, deadline)).settled) co_return;
        reason_ = reason;
      }
      // Something of the previous attempt may still listen there, or another job has the port, for which node
      // 0 waits. A store says nothing about whose it is.
      const bool is_node_0s = at_master.store && !welcome_ && !options_.rules.decide;
      store_since_ = is_node_0s ? std::min(store_since_, now()) : Time::max();
      if (is_node_0s && now() - store_since_ >= options_.timing.store)
        co_return handle(Unlinked{{.kind = ProblemKind::store_answers,
                                   .master = master_,
                                   .number = static_cast<unsigned>(options_.timing.store.count())}});
      // Node 0 may have said go while the connection was lost; it then listens elsewhere.
      if (reconnect_endpoint_.port() != 0) {
        const Contact contact = co_await connect(reconnect_endpoint_, deadline);
        if (contact == Contact::settled) co_return;
        if (contact == Contact::closed && confirms_end(ended_by)) co_return;
      }
      next = is_node_0s ? between_strangers() : std::min(longest, next);
      co_await pause(next, deadline);  // do not keep a cancelled attempt's reason
      next *= 2;
      if (!launched() && options_.self.rank != 0 && reason_) log_reason();
    }
  }

  void log_reason() {
    const std::string why = in_words(*reason_);
    if (reports_.allows(why)) log::info("waiting for node 0 at {}: {}", master_, why);
  }

  /// The pause between attempts while whoever answers is not this job's node 0.
  [[nodiscard]] milliseconds between_strangers() const {
    return std::chrono::ceil<milliseconds>(schedule_.between_checks(options_.timing.stranger));
  }

  asio::awaitable<void> pause(milliseconds about, Time deadline) {
    std::uniform_int_distribution<milliseconds::rep> around(about.count() / 2, about.count() * 3 / 2);
    loop::Timer timer(io_.get_executor(), std::min(now() + milliseconds(around(random_)), deadline));
    co_await timer.async_wait(asio::use_awaitable);
  }

  // ---- running ----

  [[nodiscard]] Waiting waiting_for_hub(WaitingFor what) const {
    Waiting waiting;
    waiting.what = what;
    waiting.hub = welcome_ ? welcome_->rank : 0;
    return waiting;
  }

  /// The first failure that this node has reported; null if none.
  [[nodiscard]] const Culprit* reported_failure() const { return first_reported(false); }
  /// Whether this node has reported a failure that another one may have caused.
  [[nodiscard]] bool may_be_victim() const {
    const Culprit* const own = reported_failure();
    return own != nullptr && is_inconclusive(*own);
  }
  /// The stop that this node has reported; null if none.
  [[nodiscard]] const Culprit* reported_stop() const { return first_reported(true); }
  [[nodiscard]] const Culprit* first_reported(bool is_stop) const {
    for (const Message& message : reported_)
      if (const auto* failure = std::get_if<Culprit>(&message);
          failure && (failure->cause == Cause::stop_requested) == is_stop)
        return failure;
    return nullptr;
  }

  /// Decides by what this node knows, because node 0 is out of reach and was sought for that long.
  void lose(std::optional<milliseconds> sought, const Liveness& liveness = {}) {
    const bool was_silent = liveness.is_silent();
    if (options_.succession) {
      options_.succession->gone[welcome_->rank] = Member::State::lost;
      if (was_silent) options_.succession->all_ended_by = now() + options_.timing.old_hub;
    }
    using outcome::Loss;
    outcome::HubLoss evidence{.node = options_.self.rank,
                              .host = options_.self.host,
                              .hub = welcome_->rank,
                              .hub_host = welcome_->host,
                              .loss = {.sign = was_silent ? Loss::Sign::silent : Loss::Sign::ended,
                                       .then = Loss::Then::not_reached,
                                       .time = options_.timeout,
                                       .within = sought},
                              .slept = liveness.slept};
    if (const Culprit* own = reported_failure()) evidence.failure = *own;
    Stop stop{judge_hub_loss(evidence)};
    if (stop.lost()) stop.unreached = reason_;
    if (options_.rules.decide) options_.rules.decide(stop);
    handle(stop);
  }

  void send(const Message& message) override {
    const bool is_news = !std::holds_alternative<Seen>(message) && !std::holds_alternative<Looked>(message);
    if (is_news) reported_.push_back(message);
    if (connection_) connection_->send(message);
  }

  asio::awaitable<void> wait_for_end(bool succeeded) override {
    if (launched()) {
      const Time until = reported_stop() != nullptr ? now() + options_.timing.farewell : Time::max();
      // A node that failed waits for node 0's verdict: whether the job is restarted, how the others' check
      // ended, or whose peer was lost. If the network has failed too, the link's own timeouts show that.
      if (succeeded || may_be_victim() || options_.rules.gathers || options_.rules.decide)
        while (!is_over() && now() < until)
          co_await wait_for_change(until, [&] {
            return waiting_for_hub(succeeded ? WaitingFor::all_ended : WaitingFor::verdict);
          });
      is_over_ = true;
      // Node 0 also closes the connection when everything that it started has ended.
      const Time end = std::min(until, now() + options_.timing.end);
      while (connection_ && stop_ && stop_->again && now() < end)
        co_await wait_for_change(end, [this] { return waiting_for_hub(WaitingFor::restart); });
    } else if (!met_ && !connection_ && !(options_.succession && options_.succession->is_known())) {
      // Otherwise the hub has heard it, or is gone too.
      co_await seek(now() + options_.timing.leave);
    }
    const Time until = now() + options_.timing.farewell;
    if (connection_) connection_->finish();
    while (connection_ && now() < until) co_await changed_.wait(until);
  }

  const std::string master_;
  const wait::Schedule schedule_;
  std::minstd_rand random_;
  std::shared_ptr<Connection> connection_;  ///< to the hub that welcomed this node
  std::optional<Welcome> welcome_;          ///< the last one
  tcp::endpoint reconnect_endpoint_;        ///< to that hub; port 0 if there is none
  bool tries_successor_ = false;            ///< the node that is tried now may be the next hub, …
  bool answered_as_stranger_ = false;       ///< … it is a new container …
  bool got_hint_ = false;                   ///< … or it has said who the hub is
  std::optional<Problem> reason_;           ///< why there is no connection
  std::optional<Problem> hub_rejection_;    ///< why whoever answered is not the hub
  std::string foreign_address_;             ///< the address of the last one that belonged to another job
  Time store_since_ = Time::max();          ///< since when a torch store has answered every attempt
  LogLimiter reports_;
  std::vector<Message> reported_;  ///< sent at the start of each new connection
};

}  // namespace

std::shared_ptr<Link> make_peer(asio::io_context& io, Options options) {
  return std::make_shared<Peer>(io, std::move(options));
}

}  // namespace rankshim::link
