#include "link/link.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "base/signals.h"
#include "link/wording.h"
#include "outcome/hang.h"

namespace rankshim::link {

namespace asio = boost::asio;

std::optional<tcp::endpoint> endpoint_of(const ListenAddress& listener) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(listener.address, error);
  if (error || listener.port == 0) return std::nullopt;
  return tcp::endpoint(address, static_cast<std::uint16_t>(listener.port));
}

bool LogLimiter::allows(const std::string& line) {
  using namespace std::chrono_literals;  // slightly less than the interval of node 0's own lines
  const auto since = now() - when;
  if (since < (line == last ? 29'000ms : 900ms)) return false;
  when = now();
  last = line;
  return true;
}

std::shared_ptr<Link> Link::make(asio::io_context& io, Options options) {
  options.self.instance = random_number();
  bool is_hub = options.self.rank == 0;
  if (options.succession) {
    Succession& known = *options.succession;
    is_hub = known.is_led_by(options.self.rank);
    options.self.term = known.term;
    options.self.holds = known.rank;
    boost::system::error_code error;
    if (!known.listener.is_open() && open_listener(known.listener, options.second_port, longest_backlog))
      error = open_listener(known.listener, 0, longest_backlog);
    if (error) throw boost::system::system_error(error, "cannot listen for the other nodes");
    options.self.listen_port = known.listener.local_endpoint(error).port();
  }
  if (options.self.port == 0) options.self.port = options.master.port;
  options.self.master = options.master.host;
  return is_hub ? make_hub(io, std::move(options)) : make_peer(io, std::move(options));
}

Link::Link(asio::io_context& io, Options options)
    : io_(io), options_(std::move(options)), changed_(io.get_executor()) {}

asio::awaitable<MeetingResult> Link::meet(Time deadline) {
  const auto self = shared_from_this();
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  try {
    co_await hold_meeting(deadline);
  } catch (const std::exception& error) {
    if (cancellation.cancelled() != asio::cancellation_type::none) throw;
    met_ = Unlinked{{.kind = ProblemKind::refused, .detail = std::string(loop::reason(error))}};
  }
  co_return *met_;
}

asio::awaitable<void> Link::stand_by() {
  const auto self = shared_from_this();
  while (!is_over()) co_await changed_.wait(Time::max());
}

asio::awaitable<void> Link::finish(Done done) {
  const auto self = shared_from_this();
  const auto cancellation = co_await asio::this_coro::cancellation_state;
  is_finishing_ = true;
  waiting_.reset();
  next_line_ = now() + options_.rules.report;
  try {
    send(done);
    co_await wait_for_end(done.code == 0);
  } catch (const std::exception& error) {
    if (cancellation.cancelled() != asio::cancellation_type::none) throw;
    log::warn("the link: {}; this node ends without the others", loop::reason(error));
  }
}

asio::awaitable<void> Link::leave(Done done) {
  release();
  is_over_ = is_stopping_ = true;
  co_await finish(std::move(done));
}

asio::awaitable<void> Link::wait_for_change(Time until, std::function<Waiting()> for_what) {
  if (!waiting_) waiting_ = for_what();
  co_await changed_.wait(std::min(until, next_line_));
  if (now() < next_line_) co_return;
  next_line_ = now() + options_.rules.report;
  waiting_ = for_what();
  log::info("{}", in_words(*waiting_));
}

void Link::report_failure(Culprit failure) {
  failure.node = options_.self.rank;
  failure.host = options_.self.host;
  try {
    send(failure);
  } catch (const std::exception& error) {
    log::warn("the link: {}", error.what());
  }
}

void Link::report_stop(int signal) {
  is_stopping_ = true;
  report_failure({.cause = Cause::stop_requested, .code = exit_code::signal_base + signal, .signal = signal});
}

void Link::handle(const Message& message) {
  if (const auto* go = std::get_if<Go>(&message); go != nullptr && !met_) {
    met_ = *go;
    launched_at_ = now();
    remember(*go);
  } else if (const auto* waiting = std::get_if<Waiting>(&message)) {
    wait_as_told(*waiting);
  } else if (const auto* voters = std::get_if<Voters>(&message); voters != nullptr && options_.succession) {
    hear(voters->ballot);
    if (!voters->candidates.empty()) options_.succession->candidates = voters->candidates;
  } else if (launched()) {
    // A job that has not begun cannot end. Before the launch, only an impostor in node 0's place would say
    // so.
    if (const auto* stop = std::get_if<Stop>(&message)) stop_as_told(*stop);
    if (const auto* look = std::get_if<Look>(&message); look != nullptr && asked_)
      loop::spawn(io_, answer(weak_from_this(), *look));
    if (std::holds_alternative<End>(message)) is_over_ = true;
  }
  if (!met_) met_ = failed_meeting(message);
  changed_.signal();
}

std::string Link::waiting() const {
  return waiting_ && (!launched() || is_finishing_) ? in_words(*waiting_) : "";
}

/// Logs what the hub waits for, and keeps it for whoever asks.
void Link::wait_as_told(const Waiting& waiting) {
  waiting_ = waiting;
  if (is_finishing_) next_line_ = now() + options_.rules.report + std::chrono::seconds(1);
  const std::string line = in_words(waiting);
  if (waits_.allows(line)) waiting.is_wrong() ? log::warn("{}", line) : log::info("{}", line);
}

/// Ends this node's part. Only the first stop counts, except that a later one may take back that all start
/// again, because a node was stopped since.
void Link::stop_as_told(const Stop& stop) {
  const bool is_gone = stop.drained() || stop.lost();
  if (is_gone && options_.succession && stop.culprit.node < options_.self.nnodes)
    options_.succession->gone[stop.culprit.node] =
        stop.drained() ? Member::State::drained : Member::State::lost;
  if (!stop_) {
    stop_ = stop;
    stop_->again = stop.again && options_.rules.decide;
    tell_stop();
  } else if (!stop.again) {
    stop_->again = false;
    stop_->not_restarted = stop.not_restarted;
  }
}

void Link::hear(const Ballot& ballot) {
  std::optional<KnownTerm>& known = options_.succession->term;
  if (!accepts(known, ballot.term)) return;
  // The hub of the last attempt, which has ended, did not begin this term.
  if (known && known->last != ballot.term) options_.succession->hub_has_ended = false;
  known = heard(known, ballot);
  known->led = known->led || ballot.term.hub == options_.self.instance;
}

/// Stores what the next attempt needs to know about this one.
void Link::remember(const Go& go) {
  if (!options_.succession || !go.lead) return;
  Succession& known = *options_.succession;
  hear(go.lead->ballot);
  known.candidates = go.lead->candidates;
  known.leader.reset();
  known.gone.clear();
  known.unreachable.clear();
  known.refused.clear();
  known.hub_has_ended = false;
  known.rank = go.rank;
  known.hub_rank = go.lead->hub_rank;
  known.launched = launched_at_;
  known.all_ended_by = {};
}

const ListenAddress* Succession::next() const {
  const auto is_left = [this](const ListenAddress& candidate) {
    return !gone.contains(candidate.index) && !unreachable.contains(candidate.index);
  };
  if (leader && is_left(*leader)) return &*leader;
  const auto found = std::ranges::find_if(candidates, is_left);
  return found == candidates.end() ? nullptr : &*found;
}

unsigned Succession::to_come() const {
  if (!term) return 0;
  std::set<unsigned> away = refused;
  for (const auto& [index, how] : gone) away.insert(index);
  const unsigned all = term->last.voters;
  return all - std::min<unsigned>(all, static_cast<unsigned>(away.size()));
}

Members Succession::members_for(const Hello& self) const {
  if (!term) return {self.nnodes, self.spares};
  Members members = Members::taken_over(self.nnodes, self.spares);
  if (hub_rank) members.held(*hub_rank, hub, hub_host, launched);
  if (rank) members.held(*rank, self.rank, self.host, launched);
  for (const auto& [index, how] : gone) members.gone(index, how);
  return members;
}

/// Answers a Look. A worker's groups are sent in parts, each of which fits into a message.
asio::awaitable<void> Link::answer(std::weak_ptr<Link> weak, Look look) {
  constexpr std::size_t at_once = 6;
  constexpr std::size_t most_ranges = 8;  // of a group's members; without them those that tell of it are
  Observation observation = co_await asked_(look.full);
  const auto self = weak.lock();
  if (!self) co_return;
  if (!look.full) observation.looks.clear();
  for (auto& [local_rank, worker] : observation.looks) {
    Looked looked{.number = look.number, .local_rank = local_rank, .worker = std::move(worker)};
    std::vector<outcome::GroupProgress> groups = std::exchange(looked.worker.groups, {});
    groups.resize(std::min(groups.size(), most_groups));
    outcome::shorten(looked.worker.stack, most_frames);
    send(looked);
    looked.worker.stack.clear();
    for (std::size_t at = 0; at < groups.size(); at += at_once) {
      const auto begin = groups.begin() + static_cast<std::ptrdiff_t>(at);
      looked.worker.groups.assign(begin,
                                  begin + static_cast<std::ptrdiff_t>(std::min(at_once, groups.size() - at)));
      for (outcome::GroupProgress& group : looked.worker.groups)
        if (group.members.size() > most_ranges) group.members.clear();
      send(looked);
    }
  }
  const std::vector<WorkerReport>& all = observation.workers;
  for (std::size_t at = 0; all.size() - at > most_reports; at += most_reports) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    send(Seen{.workers = {begin, begin + most_reports}, .number = look.number, .more = true});
  }
  const auto rest = static_cast<std::ptrdiff_t>(all.empty() ? 0 : (all.size() - 1) % most_reports + 1);
  send(Seen{.workers = {all.end() - rest, all.end()}, .number = look.number});
}

void Link::on_stop(std::function<void(const Stop&)> told) {
  told_ = std::move(told);
  tell_stop();
}

void Link::tell_stop() {
  if (!told_ || !stop_) return;
  if (stop_->culprit.node != options_.self.rank || is_found(stop_->culprit.cause))
    std::exchange(told_, nullptr)(*stop_);
}

}  // namespace rankshim::link
