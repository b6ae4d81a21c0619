#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <utility>

#include "base/duration.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "link/link.h"
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

std::optional<tcp::endpoint> endpoint_of(const Door& door) {
  boost::system::error_code error;
  const auto address = ip::make_address(door.address, error);
  if (error || door.port == 0) return std::nullopt;
  return tcp::endpoint(address, static_cast<std::uint16_t>(door.port));
}

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
    if (connection_) connection_->close("this node's link is over");
  }

 private:
  // ---- one connection ----

  /// Whether this is a hub that only asks who answers.
  [[nodiscard]] bool is_scout() const {
    return options_.scout || (options_.succession ? options_.succession->is_led_by(options_.self.rank)
                                                  : options_.self.rank == 0);
  }

  /// Who answers. `none`: nobody, or possibly node 0 in trouble: paused, throttled, behind a proxy or a
  /// network that loses large packets. `closed`: the kernel, because nobody listens. `store`: torch's store.
  /// `settled`: the hub, which has welcomed or refused this node.
  enum class Answer : std::uint8_t { none, closed, store, settled };

  asio::awaitable<Answer> connect(tcp::endpoint endpoint, Time deadline) {
    tcp::socket socket(io_);
    const wait::PortProbe look = co_await wait::connect(
        socket, endpoint, std::min(deadline, now() + options_.dns.timing.connect_timeout));
    if (look.state != wait::PortState::open) {
      reason_ = look.reason();
      co_return look.state == wait::PortState::closed ? Answer::closed : Answer::none;
    }
    co_return co_await greet(
        std::make_shared<Connection>(std::move(socket), Connection::Side::peer, options_.timeout), deadline);
  }

  asio::awaitable<Answer> greet(std::shared_ptr<Connection> connection, Time deadline) {
    const std::string hello = to_text(hello_for(*connection));
    connection->send(hello);
    const Time until = follows_ ? now() + options_.timing.successor : now() + options_.timing.welcome;
    loop::Timer timer(io_.get_executor(), std::min(deadline, until));
    const auto answer = co_await (connection->next() || timer.async_wait(asio::use_awaitable));
    if (answer.index() != 0) {
      reason_ = "the port accepts the connection and does not answer";
      co_return Answer::none;
    }
    const auto& heard = std::get<0>(answer);
    co_return heard ? answered(connection, *heard, hello) : ended_unanswered(*connection);
  }

  /// What this node says of itself.
  [[nodiscard]] Hello hello_for(const Connection& connection) const {
    Hello hello = options_.self;
    if (options_.succession) hello.term = options_.succession->term;  // it may have heard one since
    hello.running = launched();
    hello.leads = options_.scout.has_value();
    hello.address = connection.local_address();
    if (options_.token) hello.nonce = random_number();
    const Culprit* told = told_failure();
    if (told == nullptr) told = told_stop();
    if (told != nullptr && !launched()) hello.failure = *told;
    return hello;
  }

  /// The first message has come.
  Answer answered(const std::shared_ptr<Connection>& connection, const ReceivedMessage& heard,
                  const std::string& hello) {
    const auto* welcome = std::get_if<Welcome>(&heard.message);
    const auto* refuse = std::get_if<Refuse>(&heard.message);
    if (refuse != nullptr && leads_on(*refuse)) {
      refused(*refuse, *connection);  // without a proof, too: where it leads to the hub must prove itself
      return Answer::settled;
    }
    std::string fault = options_.token ? prove(*connection, heard, hello) : "";
    if (!fault.empty() && !is_scout()) {
      reason_ = why_not_hub_ = fault;
      return Answer::none;  // anybody can say that
    }
    if (fault.empty() && welcome != nullptr) fault = fault_of(*connection, *welcome);
    if (!fault.empty())
      refused({exit_code::configuration, fault}, *connection);
    else if (welcome != nullptr)
      welcomed(connection, *welcome);
    else if (refuse != nullptr)
      refused(*refuse, *connection);
    else
      return ended_unanswered(*connection);
    return Answer::settled;
  }

  /// Neither a welcome nor a refusal has come.
  Answer ended_unanswered(const Connection& connection) {
    const StreamError broken = connection.broken();
    if (broken == StreamError::version) {
      handle(no_link(
          "the rankshim of node 0 speaks another version of the link: use the same release on all nodes"));
      return Answer::settled;
    }
    reason_ = "the port accepts and closes the connection";
    if (broken == StreamError::store) reason_ = "torch's store answers there";
    if (broken == StreamError::other) reason_ = "what answers there is neither rankshim nor torch's store";
    return broken == StreamError::store ? Answer::store : Answer::none;
  }

  /// Whether this is no end of the search: the hub is elsewhere, or who answered is not to be asked again.
  [[nodiscard]] bool leads_on(const Refuse& refuse) const {
    return options_.succession && !launched() && (refuse.moved || (follows_ && refuse.stranger));
  }

  /// Proves the token to a hub that has proven it; otherwise returns why the hub has not.
  std::string prove(Connection& connection, const ReceivedMessage& heard, const std::string& hello) {
    if (const auto* refuse = std::get_if<Refuse>(&heard.message))
      return "it answers without the job's token: " + refuse->sentence;
    const auto* welcome = std::get_if<Welcome>(&heard.message);
    if (welcome == nullptr) return "";
    const std::string hub = node_name(welcome->rank, welcome->host, connection.remote_address());
    if (welcome->nonce.empty() || heard.line.tag.empty())
      return hub + " has no token, and this node has one; set --job-token-file on all nodes";
    connection.use(options_.token->for_connection(hello, heard.line.text));
    if (!connection.check(heard.line))
      return hub + " has another token, or belongs to another job; give all nodes the same --job-token-file";
    connection.send(Proof{});
    return "";
  }

  /// Why the hub that welcomed this node is not this node's hub; empty if it is.
  std::string fault_of(const Connection& connection, const Welcome& welcome) {
    if (welcome.instance == options_.self.instance) return "it is this node itself";
    if (welcome.rank >= options_.self.nnodes)
      return fmt::format("what answers there says that it is node {} of {}", welcome.rank,
                         options_.self.nnodes);
    const bool is_new = launched() && welcome.instance != welcome_->instance;
    return is_new ? node_name(welcome.rank, welcome.host, connection.remote_address()) + " was restarted"
                  : "";
  }

  void welcomed(const std::shared_ptr<Connection>& connection, const Welcome& welcome) {
    if (options_.scout) return scouted(welcome);
    welcome_ = welcome;
    way_back_ = {ip::make_address(connection->remote_address()), static_cast<std::uint16_t>(welcome.port)};
    connection_ = connection;
    for (const Message& message : said_) connection->send(message);
    loop::spawn(io_, listen(weak_from_this(), connection, milliseconds(welcome.pings)));
  }

  /// Handles the answer of another hub. A hub yields to one whose job runs, and to one that comes before it
  /// on the list.
  void scouted(const Welcome& welcome) {
    const Succession& known = *options_.succession;
    const unsigned term = known.term ? known.term->last.number : 0;
    const auto place = [&](unsigned index) { return std::ranges::find(known.doors, index, &Door::index); };
    const bool goes_before = place(welcome.rank) < place(options_.self.rank);
    Refuse found{.sentence = node_name(welcome.rank, welcome.host) + " keeps the roster of the job"};
    if (welcome.term >= term && term != 0 && (welcome.running || goes_before)) {
      found.moved = *options_.scout;
      found.moved->index = welcome.rank;
    }
    met_ = found;
  }

  void refused(Refuse refuse, const Connection& hub) {
    reason_ = refuse.sentence;
    if (leads_on(refuse)) {
      refuse.stranger = refuse.stranger || is_scout();
      if (is_scout()) return handle(refuse);  // nobody has proven that
      is_stranger_ = refuse.stranger;
      return follow(refuse.moved);
    }
    // When asking about another node 0, a hub that does not welcome this one belongs to another job.
    if (is_scout() && (!connection_ || refuse.stranger)) refuse.code = 0;
    if (refuse.stranger && !is_scout() && !launched()) return avoid(hub.remote_address());
    if (launched()) lose({});
    handle(refuse);
  }

  /// Follows somebody who is not the hub, but may have said where the hub is.
  void follow(const std::optional<Door>& hub) {
    Succession& known = *options_.succession;
    const bool is_new = hub && hub->index != options_.self.rank && !known.gone.contains(hub->index) &&
                        !known.unreachable.contains(hub->index);
    if (is_new && !known.is_led_by(hub->index)) log::info("node {} keeps the roster of the job", hub->index);
    if (is_new) known.leader = *hub;
    was_led_on_ = is_new;
  }

  /// Avoids a hub of another job, whose address may be left over in a name server: this node's hub is
  /// elsewhere, or will be there in a moment. Until then, a torch store there belongs to the other job too.
  void avoid(const std::string& address) {
    stranger_at_ = address;
    why_not_hub_ = reason_;
    welcome_.reset();
    way_back_ = {};
    if (reports_.allows(reason_)) log::warn("waiting for node 0 at {}: {}", master_, reason_);
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
      if (const auto* refuse = std::get_if<Refuse>(&heard->message)) {
        refused(*refuse, *connection);
        connection->close(refuse->sentence);
        continue;
      }
      handle(heard->message);
      const auto* go = std::get_if<Go>(&heard->message);
      const auto* voters = std::get_if<Voters>(&heard->message);
      if (go != nullptr && go->lead) answer(go->lead->ballot, *connection);
      if (voters != nullptr) answer(voters->ballot, *connection);
      const auto is_done = [](const Message& said) { return std::holds_alternative<Done>(said); };
      if (std::holds_alternative<End>(heard->message) && !is_spare() && std::ranges::none_of(said_, is_done))
        log::warn("node {} has succeeded, and was stopped: the nodes are no longer linked", welcome_->rank);
      if (go != nullptr && !options_.succession) loop::spawn(io_, ask(connection, interval, liveness));
      if (go != nullptr && options_.succession) {
        options_.succession->hub = welcome_->rank;
        options_.succession->hub_host = welcome_->host;
      }
    }
    const auto self = weak.lock();
    if (!self || connection_ != connection) co_return;
    connection_ = nullptr;
    reason_ = connection->why();
    changed_.signal();
    if (!launched() || is_over()) co_return;
    log::debug("the link to node {} has ended ({}); connecting again", welcome_->rank, reason_);
    const bool is_direct = welcome_->seen == connection->local_address();  // no proxy is between
    const bool was_closed = connection->ended_by_other() && is_direct;
    const milliseconds patience = options_.rules.time_to_return(was_closed, options_.self.nnodes);
    const Time until = now() + patience;
    try {
      co_await seek(until, was_closed);
    } catch (const std::exception& error) {
      reason_ = error.what();
    }
    // If this node did not run, the hub has closed the connection, and may live.
    if (options_.succession)
      options_.succession->hub_has_ended = was_closed && liveness->slept == milliseconds(0);
    if (!connection_ && !is_over()) lose(now() < until ? std::nullopt : std::optional(patience), *liveness);
  }

  /// Answers a ballot, which is a vote, unless this node has heard of a later term.
  void answer(const Ballot& ballot, Connection& hub) const {
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
      if (liveness->is_silent()) co_return connection->close("its rankshim does not answer");
      connection->send(Ping{});
      if (liveness->answers) ++liveness->unanswered;
      const Time due = now() + interval;
      timer.expires_at(due);
      co_await timer.async_wait(asio::use_awaitable);
      const auto late = std::chrono::duration_cast<milliseconds>(now() - due);
      const bool slept = late > most_unanswered * interval;
      if (slept || connection->is_open()) liveness->slept = slept ? late : milliseconds(0);
    }
  }

  // ---- meeting ----

  asio::awaitable<void> hold_meeting(Time deadline) override {
    if (options_.self.restarts == 0)  // otherwise all would come at the same moment
      co_await pause(milliseconds(options_.self.nnodes / 4), deadline);
    if (options_.scout) {
      if (const auto endpoint = endpoint_of(*options_.scout)) co_await connect(*endpoint, deadline);
      if (!met_) met_ = no_link(reason_);
      co_return;
    }
    if (options_.succession && !is_scout()) loop::spawn(io_, answer_at_door(weak_from_this()));
    while (!met_ && now() < deadline) {
      if (options_.succession && options_.succession->is_known())
        co_await seek_successor(deadline);
      else
        co_await seek(deadline);
      // Node 0 may have started a little later, and its verdict is the one that counts.
      const Time last = deadline + options_.timing.verdict;
      while (connection_ && !met_ && now() < last) co_await changed_.wait(last);
      const auto between = stranger_at_.empty() ? options_.timing.retry : between_strangers();
      if (!met_ && !std::exchange(was_led_on_, false))
        co_await pause(between, deadline);  // whatever welcomes this node may close every time
    }
    if (!met_) met_ = Refuse{exit_code::unreachable, why_not_met()};
    if (connection_ && !launched()) connection_->close("the meeting is over");
  }

  /// When the time for meeting is over.
  [[nodiscard]] std::string why_not_met() const {
    const bool may_move = options_.succession && options_.succession->is_known();
    const std::string hub = may_move ? "the node that keeps the roster" : "node 0 at " + master_;
    if (connection_)
      return hub + " was reached, but " + (waiting().empty() ? "not all nodes came in time" : waiting());
    if (welcome_) return hub + " was here, and went away: " + reason_;
    if (reason_.empty()) return hub + " was not looked for: no time was left";
    return hub + " was not reached in time: " + (why_not_hub_.empty() ? reason_ : why_not_hub_);
  }

  /// The hub is the first node of the list that can be reached, which may be this one. A node that refuses
  /// the connection has ended; one that accepts it and does not answer still ends its command.
  asio::awaitable<void> seek_successor(Time deadline) {
    Succession& known = *options_.succession;
    milliseconds next(10 + options_.self.nnodes / 16);
    std::optional<unsigned> tried_again;
    while (now() < deadline && !is_over() && !met_) {
      const Door* const door = known.next();
      if (door == nullptr) {
        known.unreachable.clear();
        co_await pause(next, deadline);
        next = std::min(2 * next, options_.timing.retry + milliseconds(options_.self.nnodes / 4));
        continue;
      }
      if (door->index == options_.self.rank) co_return lead(*door);
      const Door tried = *door;
      const auto endpoint = endpoint_of(tried);
      follows_ = true;
      is_stranger_ = was_led_on_ = false;
      const Answer answer = endpoint ? co_await connect(*endpoint, deadline) : Answer::none;
      follows_ = false;
      if (connection_ || met_) co_return;
      if (was_led_on_) {
        known.unreachable.insert(tried.index);
        continue;
      }
      // It may have ended while this node waited for it; it then refuses the next connection.
      if (answer == Answer::none && std::exchange(tried_again, tried.index) != tried.index) continue;
      known.unreachable.insert(tried.index);
      if (answer == Answer::closed || is_stranger_) known.refused.insert(tried.index);
    }
  }

  /// Makes this node the hub, with another link.
  void lead(const Door& own) {
    met_ = Refuse{
        .code = exit_code::unreachable, .sentence = "this node keeps the roster of the job", .moved = own};
  }

  /// Tells those that take this node for the hub where the hub is. While the hub is out of reach they wait,
  /// because this node may become the next one.
  asio::awaitable<void> answer_at_door(std::weak_ptr<Link> weak) {
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

  /// Answers one of those at the door; false if the next one must wait. `asking` counts those that are being
  /// answered.
  bool answer_one(tcp::acceptor& door, const std::shared_ptr<unsigned>& asking) {
    constexpr unsigned most_asking = 16;
    const Succession& known = *options_.succession;
    const bool knows_hub = connection_ && !known.gone.contains(welcome_->rank);
    if ((!knows_hub && known.term) || *asking == most_asking) return false;
    tcp::socket socket(io_);
    boost::system::error_code error;
    door.accept(socket, error);
    if (error) return error == asio::error::would_block || error == asio::error::connection_aborted;
    Refuse answer{.code = exit_code::unreachable,
                  .sentence = node_name(options_.self.rank, options_.self.host) + " does not keep the roster",
                  .stranger = !knows_hub};
    if (knows_hub) answer.moved = Door{welcome_->rank, way_back_.address().to_string(), welcome_->port};
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
    co_await (hear_out(*connection) || timer.async_wait(asio::use_awaitable));
    connection->close("it was told where the hub is");
    --*asking;
  }
  static asio::awaitable<void> hear_out(Connection& connection) {
    while (co_await connection.next()) {
    }
  }

  /// Looks for the hub until the meeting has ended or there is a connection: until the launch, where the
  /// master's name leads; also at the way back. `was_closed`: the hub's kernel closed the last connection. If
  /// nobody listens there any more, and a worker has lost a peer, then the hub's node is that peer.
  asio::awaitable<void> seek(Time deadline, bool was_closed = false) {
    const milliseconds longest = options_.timing.retry + milliseconds(options_.self.nnodes / 4);
    // Node 0 begins to listen a moment after the others have started, or after it has closed the connections.
    milliseconds next(10 + options_.self.nnodes / 16);
    const auto between_look_ups = schedule_.between_checks(options_.dns.timing.search_interval);
    std::vector<std::string> addresses = std::exchange(options_.addresses, {});
    Time looked_up = now();
    while (now() < deadline && !is_over()) {
      if (!launched() && (addresses.empty() || now() - looked_up > between_look_ups)) {
        options_.dns.timeout = std::chrono::ceil<milliseconds>(deadline - now());
        const wait::Result found = co_await wait::wait_for(options_.master, options_.dns);
        if (const auto* unreachable = std::get_if<wait::Unreachable>(&found))
          co_return handle(Refuse{
              .code = exit_code::unreachable,
              .sentence = unreachable->what + (why_not_hub_.empty() ? "" : "; before: " + why_not_hub_),
              .error_code = unreachable->error_code});
        addresses = std::get<wait::Reached>(found).addresses;
        if (const auto at = std::ranges::find(addresses, stranger_at_); at != addresses.end())
          std::rotate(at, at + 1, addresses.end());  // to be tried last
        looked_up = now();
      }
      bool is_store = false;
      bool may_run = false;  // node 0 then listens on the second port, if the job may be restarted
      for (const std::string& address : addresses) {
        const Answer answer = co_await connect({ip::make_address(address), options_.master.port}, deadline);
        if (answer == Answer::settled) co_return;
        is_store = is_store || (answer == Answer::store && address != stranger_at_);
        may_run = may_run || (answer == Answer::closed && options_.rules.decide);
      }
      // If the store belongs to another job, node 0 is waiting for the port.
      if ((is_store || may_run) && options_.second_port != 0) {
        const std::string reason = reason_;
        for (const std::string& address : addresses)
          if (co_await connect({ip::make_address(address), options_.second_port}, deadline) ==
              Answer::settled)
            co_return;
        reason_ = reason;
      }
      // Something of the previous attempt may still listen there, or another job has the port, for which node
      // 0 waits. A store says nothing about whose it is.
      const bool is_node_0s = is_store && !welcome_ && !options_.rules.decide;
      store_since_ = is_node_0s ? std::min(store_since_, now()) : Time::max();
      if (is_node_0s && now() - store_since_ >= options_.timing.store)
        co_return handle(no_link(fmt::format(
            "node 0 answers at {}, but not as rankshim: torch's store has answered there for {}; if it is "
            "another job's, set another RANKSHIM_MASTER_PORT on all nodes, if this node was started again, "
            "start the whole job again, and if its rank exists twice, end one of the two",
            master_, seconds(options_.timing.store))));
      // Node 0 may have said go while the connection was lost; it then listens elsewhere.
      if (way_back_.port() != 0) {
        const Answer answer = co_await connect(way_back_, deadline);
        if (answer == Answer::settled) co_return;
        const Culprit* const own = told_failure();
        if (was_closed && answer == Answer::closed && own != nullptr && is_inconclusive(*own)) co_return;
      }
      next = is_node_0s ? between_strangers() : std::min(longest, next);
      co_await pause(next, deadline);  // do not keep a cancelled attempt's reason
      next *= 2;
      if (!launched() && options_.self.rank != 0 && reports_.allows(reason_))
        log::info("waiting for node 0 at {}: {}", master_, reason_);
    }
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

  /// "waiting for node 0".
  [[nodiscard]] std::string waiting_for_hub() const {
    return fmt::format("waiting for node {}", welcome_ ? welcome_->rank : 0);
  }

  /// The first failure that this node has told of; null: none.
  [[nodiscard]] const Culprit* told_failure() const { return first_told(false); }
  /// That it was stopped, if it has told that; else null.
  [[nodiscard]] const Culprit* told_stop() const { return first_told(true); }
  [[nodiscard]] const Culprit* first_told(bool is_stop) const {
    for (const Message& message : said_)
      if (const auto* failure = std::get_if<Culprit>(&message);
          failure && (failure->cause == Cause::stop_requested) == is_stop)
        return failure;
    return nullptr;
  }

  /// Decides by what this node knows, because node 0 is out of reach and was sought for that long.
  void lose(std::optional<milliseconds> sought, const Liveness& liveness = {}) {
    const bool was_silent = liveness.is_silent();
    const std::string end =
        was_silent ? fmt::format("its rankshim has not answered for {}", seconds(options_.timeout))
                   : std::string("its connection ended");
    Stop stop{{.cause = Cause::node_lost,
               .text = fmt::format(
                   "{}, and {} could not be made again{}: {}", end, was_silent ? "the connection" : "it",
                   sought ? fmt::format(" within {} s", sought->count() / 1000) : "", reason_),
               .node = welcome_->rank,
               .host = welcome_->host}};
    if (options_.succession) {
      options_.succession->gone[welcome_->rank] = Member::State::lost;
      if (was_silent) options_.succession->all_ended_by = now() + options_.timing.old_hub;
    }
    if (liveness.slept != milliseconds(0)) {  // the others have lost this node
      stop.culprit.node = options_.self.rank;
      stop.culprit.host = options_.self.host;
      stop.culprit.text =
          fmt::format("its rankshim was suspended for {}, and node {} could not be reached again: {}",
                      hours_and_minutes(liveness.slept), welcome_->rank, reason_);
    }
    if (const Culprit* own = told_failure(); own != nullptr && !is_inconclusive(*own)) stop.culprit = *own;
    if (options_.rules.decide) options_.rules.decide(stop);
    handle(stop);
  }

  void send(const Message& message) override {
    const bool is_news = !std::holds_alternative<Seen>(message) && !std::holds_alternative<Looked>(message);
    if (is_news) said_.push_back(message);
    if (connection_) connection_->send(message);
  }

  asio::awaitable<void> wait_for_end(bool well) override {
    if (launched()) {
      const Time until = told_stop() != nullptr ? now() + options_.timing.farewell : Time::max();
      // A node that failed waits for node 0's verdict: whether the job is restarted, how the others' check
      // ended, or whose peer was lost. If the network has failed too, the link's own timeouts show that.
      const Culprit* const own = told_failure();
      const bool asks_why = own != nullptr && is_inconclusive(*own);
      if (well || asks_why || options_.rules.gathers || options_.rules.decide)
        while (!is_over() && now() < until)
          co_await wait_for_change(until, [&] {
            return waiting_for_hub() +
                   (well ? " to say that all nodes have ended" : " to say what ends the job");
          });
      is_over_ = true;
      // Node 0 also closes the connection when everything that it started has ended.
      const Time end = std::min(until, now() + options_.timing.end);
      while (connection_ && stop_ && stop_->again && now() < end)
        co_await wait_for_change(end, [this] {
          return waiting_for_hub() + ", which is stopping its processes before the restart";
        });
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
  tcp::endpoint way_back_;                  ///< to that hub; port 0 if there is none
  bool follows_ = false;                    ///< the node that is tried now may be the next hub, …
  bool is_stranger_ = false;                ///< … it is a new container …
  bool was_led_on_ = false;                 ///< … or it has said who the hub is
  std::string reason_;                      ///< why there is no connection
  std::string why_not_hub_;                 ///< why somebody who answered is not the hub
  std::string stranger_at_;                 ///< the address of the last that was another job's
  Time store_since_ = Time::max();          ///< since when a torch store has answered every attempt
  LogLimiter reports_;
  std::vector<Message> said_;  ///< sent at the start of each new connection
};

}  // namespace

std::shared_ptr<Link> make_peer(asio::io_context& io, Options options) {
  return std::make_shared<Peer>(io, std::move(options));
}

}  // namespace rankshim::link
