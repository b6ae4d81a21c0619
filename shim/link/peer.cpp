#include "link/peer.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstring>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "link/store.h"
#include "wait/port.h"
#include "wait/schedule.h"

namespace rankshim::link {

namespace asio = boost::asio;
namespace ip = boost::asio::ip;
using namespace boost::asio::experimental::awaitable_operators;
using std::chrono::milliseconds;

namespace {

constexpr unsigned enough_answers = 3;  // of a port that is no hub's
constexpr milliseconds report_interval{30'000};

std::exception_ptr logged(const std::exception_ptr& thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    log::debug("the link: {}", error.what());
  }
  return thrown;
}

}  // namespace

Peer::Peer(asio::io_context& io, Options options)
    : io_(io),
      options_(std::move(options)),
      random_(static_cast<unsigned>(std::hash<std::string>()(options_.self.instance))),
      next_report_(now()),
      changed_(io.get_executor()),
      answered_(io.get_executor()),
      ping_(io.get_executor()) {}

Peer::~Peer() {
  if (connection_) connection_->abandon();
}

// ---- one connection ----

asio::awaitable<Peer::Greeting> Peer::connect(ip::address address, unsigned port, Time deadline) {
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
  const auto fails = [&](Greeting how, const std::string& why) {
    reason_ = why;
    return how;
  };
  tcp::socket socket(io_);
  if (const int error = open_socket(socket, endpoint.protocol()))
    co_return fails(Greeting::unreachable, std::strerror(error));
  boost::system::error_code error;
  loop::Timer timer(io_.get_executor(), std::min(deadline, now() + options_.timing.connect));
  const auto first =
      co_await (socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error)) ||
                timer.async_wait(asio::use_awaitable));
  if (first.index() == 1) co_return fails(Greeting::unreachable, "no answer from the port");
  if (error)
    co_return fails(Greeting::unreachable, error == asio::error::connection_refused
                                               ? "port closed (connection refused)"
                                               : error.message());
  if (socket.local_endpoint(error) ==
      socket.remote_endpoint(error))  // the kernel can connect a socket to itself
    co_return fails(Greeting::unreachable, "port closed");
  if (connection_) connection_->abandon();
  is_welcome_ = false;
  hub_ = address;
  connection_ = std::make_shared<Connection>(std::move(socket), *this, Connection::Side::peer, 1);
  connection_->start(options_.timeout);
  Hello hello = options_.self;
  hello.address = connection_->local_address();
  hello.session = welcome_ ? welcome_->session : "";
  if (options_.token) hello.nonce = random_number();
  hello_ = connection_->send(hello);
  const Time until = std::min(deadline, now() + options_.timing.welcome),
             doubt = std::min(until, now() + options_.timing.doubt);
  const auto is_answered = [this] { return is_welcome_ || (verdict_ && !launched_); };
  while (connection_ && !is_answered() && now() < doubt) co_await answered_.wait(doubt);
  if (!is_answered() && !launched_ &&
      co_await is_store(io_.get_executor(), endpoint, now() + options_.timing.doubt)) {
    if (connection_) connection_->abandon();
    connection_.reset();
    co_return fails(Greeting::store, "torch's store answers there");
  }
  while (connection_ && !is_answered() && now() < until) co_await answered_.wait(until);
  if (is_answered()) co_return Greeting::welcome;
  if (!connection_) co_return fails(Greeting::closed, "the port accepts and closes the connection");
  connection_->abandon();
  connection_.reset();
  co_return fails(Greeting::silent, "the port accepts the connection and does not answer");
}

/// For another node 0, one that does not know this job's token is another job's.
Message Peer::refused(const Refuse& refuse, bool welcome) const {
  if (options_.self.rank == 0 && !welcome) return Unlink{refuse.sentence};
  return refuse;
}

void Peer::welcomed(Connection& connection, const Welcome& welcome, const Frame& frame) {
  const std::string hub =
      "node 0 (host " + in_quotes(welcome.host) + ", " + connection.remote_address() + ")";
  const auto refuse = [&](const std::string& sentence) {
    if (!launched_) verdict_ = refused({exit_code::configuration, sentence}, false);
    connection.drop(sentence);
  };
  if (options_.token) {
    if (welcome.nonce.empty() || !frame.tagged)
      return refuse(hub + " has no token, and this node has one; set --job-token-file on all nodes");
    connection.use(options_.token->for_connection(hello_, frame.bytes()));
    if (!connection.check(frame))
      return refuse(
          hub + " has another token, or belongs to another job; give all nodes the same --job-token-file");
    connection.send(Proof{});
  }
  if (welcome.session == options_.self.instance) {
    verdict_ = Unlink{"it is this node itself"};
    return connection.drop("it is this node itself");
  }
  if (launched_ && welcome.session != welcome_->session) return refuse(hub + " was started anew");
  welcome_ = welcome;
  is_welcome_ = true;
  for (const Message& message : said_) connection.send(message);
  answered_.signal();
}

void Peer::heard(Connection& connection, const Frame& frame) {
  if (&connection != connection_.get()) return connection.abandon();
  const auto message = from_json(frame.type, frame.body);
  if (!message) return connection.drop("a message that is none");
  if (const auto* welcome = std::get_if<Welcome>(&*message)) {
    if (!is_welcome_) welcomed(connection, *welcome, frame);
    return;
  }
  const auto* refuse = std::get_if<Refuse>(&*message);
  if (!is_welcome_ && (refuse == nullptr || options_.token)) return connection.drop("no welcome");
  if (refuse != nullptr) {
    if (!launched_ && !verdict_) verdict_ = refused(*refuse, is_welcome_);
    connection.drop(refuse->sentence);
  } else if (std::holds_alternative<Go>(*message) || std::holds_alternative<Unlink>(*message)) {
    if (!verdict_) verdict_ = *message;
  } else if (const auto* waiting = std::get_if<Waiting>(&*message)) {
    waiting_ = *waiting;
    if (options_.self.rank != 0) {
      log::info("{}", waiting_line(waiting_));
    } else if (!waiting_.note.empty()) {
      log::warn("{}", waiting_.note);
    }
  } else if (const auto* stop = std::get_if<Stop>(&*message)) {
    if (!stop_) {
      stop_ = *stop;
      if (launched_) tell_stop();
    } else if (!stop->again) {  // it was to be started again, and a node has been asked to stop since
      stop_->again = false;
      stop_->note = stop->note;
    }
  } else if (std::holds_alternative<End>(*message)) {
    ended_well_ = true;
  } else if (std::holds_alternative<Ping>(*message)) {
    connection.send(Pong{});
  }
  answered_.signal();
  changed_.signal();
}

void Peer::ended(Connection& connection, const std::string& why) {
  if (&connection != connection_.get()) return;
  const std::shared_ptr<Connection> last = std::exchange(connection_, nullptr);  // it still runs
  const bool was_welcome = std::exchange(is_welcome_, false);
  if (connection.broken() == Broken::version && !launched_)
    verdict_ = Unlink{"the rankshim of node 0 speaks another version of the link"};
  reason_ = why;
  answered_.signal();
  changed_.signal();
  if (!launched_ || !was_welcome || is_over()) return;
  start_connecting_again();
}

// ---- meeting ----

asio::awaitable<void> Peer::pause(milliseconds about, Time deadline) {
  std::uniform_int_distribution<milliseconds::rep> around(about.count() / 2, about.count() * 3 / 2);
  loop::Timer timer(io_.get_executor(), std::min(now() + milliseconds(around(random_)), deadline));
  co_await timer.async_wait(asio::use_awaitable);
}

void Peer::report(const std::string& reason) {
  if (options_.self.rank == 0 || (reason == reported_ && now() < next_report_)) return;
  log::info("waiting for node 0 at {}: {}",
            host_port(options_.master.host, std::to_string(options_.master.port)), reason);
  reported_ = reason;
  next_report_ = now() + report_interval;
}

NotMet Peer::timed_out() const {
  const std::string master = host_port(options_.master.host, std::to_string(options_.master.port));
  if (waiting_.count > 0)
    return {exit_code::unreachable, "node 0 at " + master + " was reached, but " + waiting_line(waiting_) +
                                        ", which did not come in time"};
  return {exit_code::unreachable, welcome_
                                      ? "node 0 at " + master + " was reached, but not all nodes came in time"
                                      : "node 0 at " + master + " was not reached in time: " + reason_};
}

/// Looks for the hub until there is a connection that was welcome. Returns an end of the meeting, or nothing.
asio::awaitable<std::optional<Met>> Peer::seek(Time deadline) {
  wait::Master master = options_.master;
  master.until = Until::name;
  const milliseconds between = options_.timing.retry + milliseconds(options_.self.nnodes / 4);
  // When all start again, node 0 listens a moment after it has closed the connections.
  milliseconds next = is_again() ? std::min(between, milliseconds(10 + options_.self.nnodes / 16)) : between;
  unsigned silent = 0, closed = 0;
  const auto between_look_ups =
      wait::Schedule(options_.dns.timing, options_.self.nnodes).between_checks(options_.timing.look_up);
  std::vector<ip::address> addresses;
  for (const std::string& address : std::exchange(options_.addresses, {}))
    addresses.push_back(ip::make_address(address));
  Time looked_up = now();
  while (now() < deadline) {
    if (addresses.empty() || now() - looked_up > between_look_ups) {
      wait::Limits limits = options_.dns;
      limits.timeout = std::chrono::ceil<milliseconds>(deadline - now());
      limits.nodes = options_.self.nnodes;
      const wait::Result found = co_await wait::wait_for(master, limits);
      if (const auto* unreachable = std::get_if<wait::Unreachable>(&found))
        co_return NotMet{exit_code::unreachable, unreachable->what, unreachable->anchor};
      addresses.clear();
      for (const std::string& address : std::get<wait::Reached>(found).addresses)
        addresses.push_back(ip::make_address(address));
      looked_up = now();
    }
    bool answers = false;
    for (const ip::address& address : addresses) {
      switch (co_await connect(address, options_.master.port, deadline)) {
        case Greeting::welcome:
          co_return std::nullopt;
        case Greeting::store:
          silent += enough_answers;
          answers = true;
          break;
        case Greeting::silent:
          ++silent;
          answers = true;
          break;
        case Greeting::closed:
          closed += wait::find_sidecar() == 0 ? 1 : 0;  // a mesh accepts for those who do not listen yet
          answers = true;
          break;
        case Greeting::unreachable:
          break;
      }
    }
    if (!answers) silent = closed = 0;
    // What is left of the attempt before may still be at the port.
    if (!welcome_ && !options_.rules.decide && silent + closed >= enough_answers)
      co_return NoLink{"node 0 answers at " +
                       host_port(options_.master.host, std::to_string(options_.master.port)) +
                       ", but not as rankshim: " + reason_};
    // It may have said go while the connection was lost; then it listens elsewhere.
    if (welcome_ && welcome_->port != 0 && !hub_.is_unspecified() &&
        co_await connect(hub_, welcome_->port, deadline) == Greeting::welcome)
      co_return std::nullopt;
    co_await pause(next, deadline);  // a cancelled try is no reason
    report(reason_);
    next = std::min(between, 2 * next);
  }
  co_return timed_out();
}

asio::awaitable<Met> Peer::gather(Time deadline) {
  const auto self = shared_from_this();
  constexpr unsigned small = 64;
  if (options_.self.nnodes > small && !is_again())  // else all would come at the same moment
    co_await pause(milliseconds(options_.self.nnodes / 4), deadline);
  while (!verdict_) {
    if (!connection_) {
      if (auto end = co_await seek(deadline)) co_return *std::move(end);
    } else if (now() >= deadline) {
      connection_->abandon();
      connection_.reset();
      co_return timed_out();
    } else {
      co_await changed_.wait(deadline);
    }
  }
  launched_ = std::holds_alternative<Go>(*verdict_);
  if (!launched_ && connection_) {
    connection_->abandon();
    connection_.reset();
  } else if (!launched_) {
    co_return met_by(*verdict_);
  } else if (!connection_) {  // it was lost at this moment
    start_connecting_again();
  } else if (welcome_->seen != connection_->local_address() ||
             welcome_->address != connection_->remote_address()) {
    asio::co_spawn(io_, keep_alive(weak_from_this()), asio::detached);
  }
  co_return met_by(*verdict_);
}

// ---- running ----

/// A proxy between the nodes closes connections on which nothing is said. The peer may go while this waits.
asio::awaitable<void> Peer::keep_alive(std::weak_ptr<Peer> peer) {
  while (true) {
    auto self = peer.lock();
    if (!self || self->is_over()) co_return;
    if (self->connection_) self->connection_->send(Ping{});
    loop::Timer& timer = self->ping_;
    timer.expires_after(self->options_.timing.ping);
    self.reset();
    boost::system::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void Peer::start_connecting_again() {
  if (welcome_->port == 0) {
    unlinked_ = true;
    return log::warn("the link to node 0 has ended ({}); the job goes on without it", reason_);
  }
  if (std::exchange(connecting_again_, true)) return;
  log::debug("the link to node 0 has ended ({}); connecting again", reason_);
  asio::co_spawn(
      io_, [self = shared_from_this()] { return self->connect_again(); },
      [self = shared_from_this()](const std::exception_ptr& thrown) {
        self->connecting_again_ = false;
        if (logged(thrown)) {
          self->lose();
        } else if (!self->connection_ && !self->is_over()) {
          self->start_connecting_again();  // it was lost again just as it was made
        }
      });
}

asio::awaitable<void> Peer::connect_again() {
  const Time deadline = now() + options_.rules.relink;
  while (now() < deadline && !is_over()) {
    if (co_await connect(hub_, welcome_->port, deadline) == Greeting::welcome && connection_) {
      log::debug("the link to node 0 is made again");
      co_return;
    }
    co_await pause(options_.timing.retry + milliseconds(options_.self.nnodes / 4), deadline);
  }
  if (!is_over()) lose();
}

void Peer::lose() {
  stop_ = Stop{
      .culprit = {.cause = "lost",
                  .text = fmt::format("its connection ended, and it could not be made again within {} s: {}",
                                      options_.rules.relink.count() / 1000, reason_),
                  .node = 0,
                  .host = welcome_->host},
      .why = Stop::Why::lost};
  if (!failures_.empty()) stop_ = Stop{.culprit = failures_.front()};  // the first that this node knows of
  if (options_.rules.decide) options_.rules.decide(*stop_);
  tell_stop();
  changed_.signal();
}

void Peer::say(const Message& message) {
  try {
    said_.push_back(message);
    if (connection_ && is_welcome_) connection_->send(message);
  } catch (const std::exception& error) {
    log::warn("the link: {}", error.what());
  }
}

void Peer::report_failure(const Failure& failure) {
  failures_.push_back(failure);
  failures_.back().node = options_.self.rank;
  failures_.back().host = options_.self.host;
  say(Fail{failure});
}

void Peer::on_stop(std::function<void(const Stop&)> told) {
  told_ = std::move(told);
  if (stop_) tell_stop();
}

void Peer::tell_stop() const {
  if (told_ && stop_->culprit.node != options_.self.rank) told_(*stop_);
}

asio::awaitable<void> Peer::part_early() {
  const auto self = shared_from_this();
  if (!launched_ && !verdict_ && !is_welcome_) {  // who is welcome says again what it has said
    if (connection_) connection_->abandon();
    connection_.reset();
    co_await seek(now() + options_.timing.leave);
  }
  const Time until = now() + options_.timing.farewell;
  if (connection_) connection_->finish();
  while (connection_ && now() < until) co_await changed_.wait(until);
}

asio::awaitable<std::optional<Stop>> Peer::unheard() {
  const auto self = shared_from_this();
  const Time until = now() + options_.timing.farewell;
  while (connection_ && stop_ && stop_->again && now() < until) co_await changed_.wait(until);
  co_return !connection_ && stop_ && stop_->again ? stop_ : std::nullopt;
}

asio::awaitable<JobEnd> Peer::part(Done done) {
  const auto self = shared_from_this();
  say(done);
  // A node that failed waits for node 0's word: whether the job is started again, or how the others' check
  // ended. If the network has failed too, that is known after the link's own timeouts.
  const bool asks = options_.rules.gathers || (options_.rules.decide && !failures_.empty());
  const Time word = done.code == 0 || asks ? Time::max() : now();
  while (!is_over() && now() < word) co_await changed_.wait(word);
  done_badly_ = true;
  if (stop_ && stop_->again)  // node 0 closes the connection when all that it started has ended, too
    while (connection_) co_await changed_.wait(Time::max());
  co_await part_early();
  co_return JobEnd{stop_, failures_};
}

}  // namespace rankshim::link
