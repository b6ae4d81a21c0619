#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <utility>

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

constexpr unsigned enough_answers = 3;  // of a port that is no hub's

/// A node but node 0: it connects to the hub, and connects again if the connection is lost.
class Peer final : public Link {
 public:
  Peer(asio::io_context& io, Options options)
      : Link(io, std::move(options)),
        master_(host_port(options_.master.host, std::to_string(options_.master.port))),
        schedule_(options_.dns.timing, options_.self.nnodes),
        random_(static_cast<unsigned>(std::hash<std::string>()(options_.self.instance))),
        next_report_(now()),
        answered_(io.get_executor()),
        ping_(io.get_executor()) {
    options_.master.until = Until::name;
    options_.dns.nodes = options_.self.nnodes;
  }

  ~Peer() override { disconnect(); }

 private:
  // ---- one connection ----

  /// How far a connection has come.
  enum class Greeting : std::uint8_t { unreachable, silent, closed, store, welcome };

  asio::awaitable<Greeting> connect(tcp::endpoint endpoint, Time deadline) {
    tcp::socket socket(io_);
    boost::system::error_code error = open_socket(socket, endpoint.protocol()), ignored;
    loop::Timer timer(io_.get_executor(), std::min(deadline, now() + options_.dns.timing.connect_timeout));
    if (!error)
      co_await (socket.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error)) ||
                timer.async_wait(asio::use_awaitable));
    if (!error && socket.local_endpoint(ignored) == socket.remote_endpoint(ignored))
      error = asio::error::connection_refused;  // the kernel can connect a socket to itself
    if (error) {
      reason_ = error == asio::error::operation_aborted    ? "no answer from the port"
                : error == asio::error::connection_refused ? "port closed (connection refused)"
                                                           : error.message();
      co_return Greeting::unreachable;
    }
    disconnect();
    connection_ = std::make_shared<Connection>(std::move(socket), *this, Connection::Side::peer, 1);
    connection_->start(options_.timeout);
    Hello hello = options_.self;
    hello.address = connection_->local_address();
    if (options_.token) hello.nonce = random_number();
    hello_ = to_text(hello);
    connection_->send(hello_);
    const Time until = std::min(deadline, now() + options_.timing.welcome);
    const auto is_answered = [this] { return is_welcome_ || (met_ && !launched()); };
    while (connection_ && !is_answered() && now() < until) co_await answered_.wait(until);
    if (is_answered()) co_return Greeting::welcome;
    if (connection_) {
      disconnect();
      reason_ = "the port accepts the connection and does not answer";
      co_return Greeting::silent;
    }
    const bool store = ended_as_ == Broken::store;
    reason_ = store ? "torch's store answers there" : "the port accepts and closes the connection";
    co_return store ? Greeting::store : Greeting::closed;
  }

  void disconnect() {
    if (connection_) connection_->abandon();
    connection_.reset();
    is_welcome_ = false;
  }

  void heard(Connection& connection, const Message& message, const Line& line) override {
    if (&connection != connection_.get()) return connection.abandon();
    const auto* refuse = std::get_if<Refuse>(&message);
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      if (!is_welcome_) welcomed(connection, *welcome, line);
    } else if (refuse != nullptr && (is_welcome_ || !options_.token)) {
      refused(connection, refuse->sentence, refuse->code);
    } else if (!is_welcome_) {
      connection.drop("no welcome");
    } else if (std::holds_alternative<Ping>(message)) {
      connection.send(Ping{});
    } else {
      take(message);
    }
    answered_.signal();
  }

  void welcomed(Connection& connection, const Welcome& welcome, const Line& line) {
    const std::string hub = node_name(0, welcome.host, connection.remote_address());
    if (options_.token) {
      if (welcome.nonce.empty() || line.tag.empty())
        return refused(connection,
                       hub + " has no token, and this node has one; set --job-token-file on all nodes");
      connection.use(options_.token->for_connection(hello_, line.text));
      if (!connection.check(line))
        return refused(
            connection,
            hub + " has another token, or belongs to another job; give all nodes the same --job-token-file");
      connection.send(Proof{});
    }
    if (welcome.instance == options_.self.instance) return refused(connection, "it is this node itself");
    if (launched() && welcome.instance != welcome_->instance)
      return refused(connection, hub + " was started anew");
    welcome_ = welcome;
    way_back_ = {ip::make_address(connection.remote_address()), static_cast<std::uint16_t>(welcome.port)};
    is_welcome_ = true;
    for (const Message& message : said_) connection.send(message);
  }

  /// For another node 0, one that does not know this job's token is another job's.
  void refused(Connection& connection, const std::string& sentence, int code = exit_code::configuration) {
    reason_ = sentence;
    if (launched()) lose();
    take(Refuse{options_.self.rank == 0 && !is_welcome_ ? 0 : code, sentence});
    connection.drop(sentence);
  }

  void ended(Connection& connection, const std::string& why) override {
    if (&connection != connection_.get()) return;
    const std::shared_ptr<Connection> last = std::exchange(connection_, nullptr);  // it still runs
    const bool was_welcome = std::exchange(is_welcome_, false);
    ended_as_ = connection.broken();
    if (ended_as_ == Broken::version)
      take(no_link("the rankshim of node 0 speaks another version of the link"));
    reason_ = why;
    answered_.signal();
    changed_.signal();
    if (launched() && was_welcome) asio::co_spawn(io_, connect_again(shared_from_this()), asio::detached);
  }

  // ---- meeting ----

  asio::awaitable<void> gather(Time deadline) override {
    if (schedule_.is_large() && options_.self.restarts == 0)  // else all would come at the same moment
      co_await pause(milliseconds(options_.self.nnodes / 4), deadline);
    while (!met_ && now() < deadline) {
      if (connection_)
        co_await changed_.wait(deadline);
      else if (const auto end = co_await seek(deadline))
        take(*end);
    }
    if (!met_) met_ = timed_out();
    if (!launched()) {
      disconnect();
    } else if (!connection_) {  // it was lost at this moment
      asio::co_spawn(io_, connect_again(shared_from_this()), asio::detached);
    } else if (welcome_->seen != connection_->local_address() ||
               welcome_->address != connection_->remote_address()) {
      asio::co_spawn(io_, keep_alive(weak_from_this()), asio::detached);
    }
  }

  /// Looks for the hub until there is a connection that was welcome: where the master's name leads until the
  /// launch, and on the way back. Returns an end of the meeting, or nothing.
  asio::awaitable<std::optional<Refuse>> seek(Time deadline) {
    const milliseconds between = options_.timing.retry + milliseconds(options_.self.nnodes / 4);
    // When all start again, node 0 listens a moment after it has closed the connections.
    milliseconds next = between;
    if (options_.self.restarts != 0) next = std::min(between, milliseconds(10 + options_.self.nnodes / 16));
    unsigned answers = 0;  // that no hub gives
    const auto between_look_ups = schedule_.between_checks(options_.dns.timing.search_interval);
    std::vector<std::string> addresses = std::exchange(options_.addresses, {});
    Time looked_up = now();
    while (now() < deadline && !is_over()) {
      if (!launched() && (addresses.empty() || now() - looked_up > between_look_ups)) {
        options_.dns.timeout = std::chrono::ceil<milliseconds>(deadline - now());
        const wait::Result found = co_await wait::wait_for(options_.master, options_.dns);
        if (const auto* unreachable = std::get_if<wait::Unreachable>(&found))
          co_return Refuse{exit_code::unreachable, unreachable->what, unreachable->anchor};
        addresses = std::get<wait::Reached>(found).addresses;
        looked_up = now();
      }
      bool is_there = false;
      for (const std::string& address : addresses) {
        const Greeting greeting =
            co_await connect({ip::make_address(address), options_.master.port}, deadline);
        if (greeting == Greeting::welcome) co_return std::nullopt;
        is_there = is_there || greeting != Greeting::unreachable;
        // A mesh accepts for those who do not listen yet.
        const bool counts =
            greeting == Greeting::silent || (greeting == Greeting::closed && wait::find_sidecar() == 0);
        answers += greeting == Greeting::store ? enough_answers : counts ? 1 : 0;
      }
      if (!is_there) answers = 0;
      // Something of the previous attempt may still listen there.
      if (!welcome_ && !options_.rules.decide && answers >= enough_answers)
        co_return no_link("node 0 answers at " + master_ + ", but not as rankshim: " + reason_);
      // It may have said go while the connection was lost; then it listens elsewhere.
      if (way_back_.port() != 0 && co_await connect(way_back_, deadline) == Greeting::welcome)
        co_return std::nullopt;
      co_await pause(next, deadline);  // a cancelled try is no reason
      report();
      next = std::min(between, 2 * next);
    }
    co_return timed_out();
  }

  asio::awaitable<void> pause(milliseconds about, Time deadline) {
    std::uniform_int_distribution<milliseconds::rep> around(about.count() / 2, about.count() * 3 / 2);
    loop::Timer timer(io_.get_executor(), std::min(now() + milliseconds(around(random_)), deadline));
    co_await timer.async_wait(asio::use_awaitable);
  }

  void report() {
    if (launched() || options_.self.rank == 0 || (reason_ == reported_ && now() < next_report_)) return;
    log::info("waiting for node 0 at {}: {}", master_, reason_);
    reported_ = reason_;
    next_report_ = now() + options_.dns.timing.report_interval;
  }

  [[nodiscard]] Refuse timed_out() const {
    const std::string missing = waiting();
    const std::string why = !welcome_ ? " was not reached in time: " + reason_
                            : missing.empty()
                                ? " was reached, but not all nodes came in time"
                                : " was reached, but " + missing + ", which did not come in time";
    return {exit_code::unreachable, "node 0 at " + master_ + why};
  }

  // ---- running ----

  /// A proxy between the nodes closes connections on which nothing is said. The peer may go while this waits.
  asio::awaitable<void> keep_alive(std::weak_ptr<Link> weak) {
    while (!weak.expired() && !is_over()) {
      if (connection_) connection_->send(Ping{});
      ping_.expires_after(options_.timing.ping);
      boost::system::error_code ignored;
      co_await ping_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }

  asio::awaitable<void> connect_again(std::shared_ptr<Link> /*self*/) {
    if (is_over() || std::exchange(connecting_again_, true)) co_return;
    log::debug("the link to node 0 has ended ({}); connecting again", reason_);
    try {
      co_await seek(now() + options_.rules.relink);
    } catch (const std::exception& error) {
      reason_ = error.what();
    }
    connecting_again_ = false;
    if (!is_welcome_ && !is_over()) lose();
  }

  /// The first that this node has told of, or that it was asked to stop.
  [[nodiscard]] const Failure* first_told(bool stopped) const {
    for (const Message& message : said_)
      if (const auto* failure = std::get_if<Failure>(&message);
          failure && Stop{*failure}.drained() == stopped)
        return failure;
    return nullptr;
  }

  /// Node 0 is out of reach: this node decides by what it knows.
  void lose() {
    Stop stop{{.cause = "lost",
               .text = fmt::format("its connection ended, and it could not be made again within {} s: {}",
                                   options_.rules.relink.count() / 1000, reason_),
               .host = welcome_->host}};
    if (const Failure* own = first_told(false)) stop.culprit = *own;
    if (options_.rules.decide) options_.rules.decide(stop);
    take(stop);
  }

  void send(const Message& message) override {
    said_.push_back(message);
    if (is_welcome_) connection_->send(message);
  }

  asio::awaitable<void> part(bool well) override {
    if (launched()) {
      const Time until = first_told(true) != nullptr ? now() + options_.timing.farewell : Time::max();
      // A node that failed waits for node 0's word: whether the job is started again, or how the others'
      // check ended. If the network has failed too, that is known after the link's own timeouts.
      if (well || options_.rules.gathers || options_.rules.decide)
        while (!is_over() && now() < until) co_await changed_.wait(until);
      is_over_ = true;
      // Node 0 closes the connection when all that it started has ended, too.
      while (connection_ && stop_ && stop_->again && now() < until) co_await changed_.wait(until);
    } else if (!met_ && !is_welcome_) {  // who is welcome says again what it has said
      disconnect();
      co_await seek(now() + options_.timing.leave);
    }
    const Time until = now() + options_.timing.farewell;
    if (connection_) connection_->finish();
    while (connection_ && now() < until) co_await changed_.wait(until);
  }

  const std::string master_;
  const wait::Schedule schedule_;
  std::minstd_rand random_;
  std::shared_ptr<Connection> connection_;
  std::string hello_;        ///< the text that was sent
  bool is_welcome_ = false;  ///< on this connection
  std::optional<Welcome> welcome_;
  tcp::endpoint way_back_;        ///< to the hub that was welcoming; port 0: there is none
  Broken ended_as_ = Broken::no;  ///< the last connection
  std::string reason_;            ///< why there is no connection
  std::string reported_;
  Time next_report_;
  Event answered_;    ///< for connect()
  loop::Timer ping_;  ///< for keep_alive()
  bool connecting_again_ = false;
  std::vector<Message> said_;  ///< a new connection begins with it
};

}  // namespace

std::shared_ptr<Link> make_peer(asio::io_context& io, Options options) {
  return std::make_shared<Peer>(io, std::move(options));
}

}  // namespace rankshim::link
