#include "link/peer.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
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

}  // namespace

Peer::Peer(asio::io_context& io, Options options)
    : Link(io, std::move(options)),
      master_(host_port(options_.master.host, std::to_string(options_.master.port))),
      random_(static_cast<unsigned>(std::hash<std::string>()(options_.self.instance))),
      next_report_(now()),
      answered_(io.get_executor()),
      ping_(io.get_executor()) {}

Peer::~Peer() { disconnect(); }

// ---- one connection ----

void Peer::disconnect() {
  if (connection_) connection_->abandon();
  connection_.reset();
}

asio::awaitable<Peer::Greeting> Peer::connect(ip::address address, unsigned port, Time deadline) {
  const tcp::endpoint endpoint(address, static_cast<std::uint16_t>(port));
  const auto fails = [&](Greeting how, const std::string& why) {
    reason_ = why;
    return how;
  };
  tcp::socket socket(io_);
  boost::system::error_code error = open_socket(socket, endpoint.protocol());
  if (error) co_return fails(Greeting::unreachable, error.message());
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
  disconnect();
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
  const auto is_answered = [this] { return is_welcome_ || (met_ && !launched_); };
  while (connection_ && !is_answered() && now() < doubt) co_await answered_.wait(doubt);
  if (!is_answered() && !launched_ &&
      co_await is_store(io_.get_executor(), endpoint, now() + options_.timing.doubt)) {
    disconnect();
    co_return fails(Greeting::store, "torch's store answers there");
  }
  while (connection_ && !is_answered() && now() < until) co_await answered_.wait(until);
  if (is_answered()) co_return Greeting::welcome;
  if (!connection_) co_return fails(Greeting::closed, "the port accepts and closes the connection");
  disconnect();
  co_return fails(Greeting::silent, "the port accepts the connection and does not answer");
}

/// For another node 0, one that does not know this job's token is another job's.
void Peer::refused(Connection& connection, const Refuse& refuse) {
  const bool is_known = refuse.code == exit_code::unreachable || refuse.code == exit_code::peer;
  if (!met_ && options_.self.rank == 0 && !is_welcome_) met_ = Unlink{refuse.sentence};
  if (!met_) met_ = Refuse{is_known ? refuse.code : exit_code::configuration, refuse.sentence};
  connection.drop(refuse.sentence);
}

void Peer::welcomed(Connection& connection, const Welcome& welcome, const Frame& frame) {
  const std::string hub = node_name(0, welcome.host, connection.remote_address());
  const auto refuse = [&](const std::string& sentence) { refused(connection, {.sentence = sentence}); };
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
    met_ = Unlink{"it is this node itself"};
    return connection.drop("it is this node itself");
  }
  if (launched_ && welcome.session != welcome_->session) return refuse(hub + " was started anew");
  welcome_ = welcome;
  is_welcome_ = true;
  for (const Message& message : said_) connection.send(message);
  answered_.signal();
}

void Peer::heard(Connection& connection, const Message& message, const Frame& frame) {
  if (&connection != connection_.get()) return connection.abandon();
  if (const auto* welcome = std::get_if<Welcome>(&message)) {
    if (!is_welcome_) welcomed(connection, *welcome, frame);
    return;
  }
  const auto* refuse = std::get_if<Refuse>(&message);
  if (!is_welcome_ && (refuse == nullptr || options_.token)) return connection.drop("no welcome");
  if (refuse != nullptr) {
    refused(connection, *refuse);
  } else if (const auto* go = std::get_if<Go>(&message)) {
    if (!met_) met_ = *go;
  } else if (const auto* unlink = std::get_if<Unlink>(&message)) {
    if (!met_) met_ = *unlink;
  } else if (const auto* waiting = std::get_if<Waiting>(&message)) {
    waiting_ = *waiting;
    if (options_.self.rank != 0) {
      log::info("{}", waiting_line(waiting_));
    } else if (!waiting_.note.empty()) {
      log::warn("{}", waiting_.note);
    }
  } else if (const auto* stop = std::get_if<Stop>(&message)) {
    if (!stop_) {
      stop_ = *stop;
      tell_stop();
    } else if (!stop->again) {  // it was to be started again, and a node has been asked to stop since
      stop_->again = false;
      stop_->note = stop->note;
    }
  } else if (std::holds_alternative<End>(message)) {
    is_over_ = true;
  } else if (std::holds_alternative<Ping>(message)) {
    connection.send(Pong{});
  }
  answered_.signal();
  changed_.signal();
}

void Peer::ended(Connection& connection, const std::string& why) {
  if (&connection != connection_.get()) return;
  const std::shared_ptr<Connection> last = std::exchange(connection_, nullptr);  // it still runs
  const bool was_welcome = std::exchange(is_welcome_, false);
  if (connection.broken() == Broken::version && !met_)
    met_ = Unlink{"the rankshim of node 0 speaks another version of the link"};
  reason_ = why;
  answered_.signal();
  changed_.signal();
  if (launched_ && was_welcome && !is_over()) start_connecting_again();
}

// ---- meeting ----

asio::awaitable<void> Peer::pause(milliseconds about, Time deadline) {
  std::uniform_int_distribution<milliseconds::rep> around(about.count() / 2, about.count() * 3 / 2);
  loop::Timer timer(io_.get_executor(), std::min(now() + milliseconds(around(random_)), deadline));
  co_await timer.async_wait(asio::use_awaitable);
}

void Peer::report(const std::string& reason) {
  if (options_.self.rank == 0 || (reason == reported_ && now() < next_report_)) return;
  log::info("waiting for node 0 at {}: {}", master_, reason);
  reported_ = reason;
  next_report_ = now() + report_interval;
}

Refuse Peer::timed_out() const {
  std::string sentence = "node 0 at " + master_;
  if (waiting_.count > 0)
    sentence += " was reached, but " + waiting_line(waiting_) + ", which did not come in time";
  else if (welcome_)
    sentence += " was reached, but not all nodes came in time";
  else
    sentence += " was not reached in time: " + reason_;
  return {exit_code::unreachable, sentence};
}

/// Looks for the hub until there is a connection that was welcome. Returns an end of the meeting, or nothing.
asio::awaitable<std::optional<Met>> Peer::seek(Time deadline) {
  wait::Master master = options_.master;
  master.until = Until::name;
  const milliseconds between = options_.timing.retry + milliseconds(options_.self.nnodes / 4);
  // When all start again, node 0 listens a moment after it has closed the connections.
  milliseconds next = is_again() ? std::min(between, milliseconds(10 + options_.self.nnodes / 16)) : between;
  unsigned answers = 0;  // that no hub gives
  const auto between_look_ups =
      wait::Schedule(options_.dns.timing, options_.self.nnodes).between_checks(options_.timing.look_up);
  std::vector<std::string> addresses = std::exchange(options_.addresses, {});
  Time looked_up = now();
  while (now() < deadline) {
    if (addresses.empty() || now() - looked_up > between_look_ups) {
      wait::Limits limits = options_.dns;
      limits.timeout = std::chrono::ceil<milliseconds>(deadline - now());
      limits.nodes = options_.self.nnodes;
      const wait::Result found = co_await wait::wait_for(master, limits);
      if (const auto* unreachable = std::get_if<wait::Unreachable>(&found))
        co_return Refuse{exit_code::unreachable, unreachable->what, unreachable->anchor};
      addresses = std::get<wait::Reached>(found).addresses;
      looked_up = now();
    }
    bool is_there = false;
    for (const std::string& address : addresses) {
      const Greeting greeting = co_await connect(ip::make_address(address), options_.master.port, deadline);
      if (greeting == Greeting::welcome) co_return std::nullopt;
      is_there = is_there || greeting != Greeting::unreachable;
      // A mesh accepts for those who do not listen yet.
      const bool counts =
          greeting == Greeting::silent || (greeting == Greeting::closed && wait::find_sidecar() == 0);
      answers += greeting == Greeting::store ? enough_answers : counts ? 1 : 0;
    }
    if (!is_there) answers = 0;
    // What is left of the attempt before may still be at the port.
    if (!welcome_ && !options_.rules.decide && answers >= enough_answers)
      co_return Unlink{"node 0 answers at " + master_ + ", but not as rankshim: " + reason_};
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
  constexpr unsigned small = 64;
  if (options_.self.nnodes > small && !is_again())  // else all would come at the same moment
    co_await pause(milliseconds(options_.self.nnodes / 4), deadline);
  while (!met_) {
    if (!connection_) {
      if (auto end = co_await seek(deadline)) met_ = std::move(end);
    } else if (now() >= deadline) {
      met_ = timed_out();
    } else {
      co_await changed_.wait(deadline);
    }
  }
  launched_ = std::holds_alternative<Go>(*met_);
  if (!launched_) {
    disconnect();
  } else if (!connection_) {  // it was lost at this moment
    start_connecting_again();
  } else if (welcome_->seen != connection_->local_address() ||
             welcome_->address != connection_->remote_address()) {
    asio::co_spawn(io_, keep_alive(weak_from_this()), asio::detached);
  }
  co_return *met_;
}

// ---- running ----

/// A proxy between the nodes closes connections on which nothing is said. The peer may go while this waits.
asio::awaitable<void> Peer::keep_alive(std::weak_ptr<Link> weak) {
  while (!weak.expired() && !is_over()) {
    if (connection_) connection_->send(Ping{});
    ping_.expires_after(options_.timing.ping);
    boost::system::error_code ignored;
    co_await ping_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void Peer::start_connecting_again() {
  if (welcome_->port == 0) {
    is_over_ = true;
    return log::warn("the link to node 0 has ended ({}); the job goes on without it", reason_);
  }
  if (std::exchange(connecting_again_, true)) return;
  log::debug("the link to node 0 has ended ({}); connecting again", reason_);
  asio::co_spawn(io_, connect_again(), [this, self = shared_from_this()](const std::exception_ptr&) {
    connecting_again_ = false;
    if (!connection_ && !is_over()) start_connecting_again();  // it was lost again just as it was made
  });
}

asio::awaitable<void> Peer::connect_again() {
  const Time deadline = now() + options_.rules.relink;
  try {
    while (now() < deadline && !is_over()) {
      if (co_await connect(hub_, welcome_->port, deadline) == Greeting::welcome && connection_) {
        log::debug("the link to node 0 is made again");
        co_return;
      }
      co_await pause(options_.timing.retry + milliseconds(options_.self.nnodes / 4), deadline);
    }
  } catch (const std::exception& error) {
    reason_ = error.what();
  }
  if (!is_over()) lose();
}

const Failure* Peer::first_failure() const {
  for (const Message& message : said_)
    if (const auto* failure = std::get_if<Failure>(&message)) return failure;
  return nullptr;
}

void Peer::lose() {
  if (const Failure* own = first_failure()) {  // the first that this node knows of
    stop_ = Stop{.culprit = *own};
    stop_->culprit.node = options_.self.rank;
    stop_->culprit.host = options_.self.host;
  } else {
    stop_ = Stop{.culprit = {.cause = "lost",
                             .text = fmt::format(
                                 "its connection ended, and it could not be made again within {} s: {}",
                                 options_.rules.relink.count() / 1000, reason_),
                             .node = 0,
                             .host = welcome_->host},
                 .why = Stop::Why::lost};
  }
  if (options_.rules.decide) options_.rules.decide(*stop_);
  tell_stop();
  changed_.signal();
}

void Peer::send(const Message& message) {
  said_.push_back(message);
  if (connection_ && is_welcome_) connection_->send(message);
}

asio::awaitable<void> Peer::part_early() {
  if (!met_ && !is_welcome_) {  // who is welcome says again what it has said
    disconnect();
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

asio::awaitable<void> Peer::part(bool well) {
  // A node that failed waits for node 0's word: whether the job is started again, or how the others' check
  // ended. If the network has failed too, that is known after the link's own timeouts.
  if (well || options_.rules.gathers || (options_.rules.decide && first_failure() != nullptr))
    while (!is_over()) co_await changed_.wait(Time::max());
  is_over_ = true;
  if (stop_ && stop_->again)  // node 0 closes the connection when all that it started has ended, too
    while (connection_) co_await changed_.wait(Time::max());
  co_await part_early();
}

}  // namespace rankshim::link
