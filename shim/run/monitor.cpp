#include "run/monitor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>

#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/private_folder.h"
#include "node/process.h"
#include "report/wording.h"
#include "supervise/signals.h"
#include "supervise/spawn.h"

namespace rankshim::run {
namespace {

using node::MemoryReading;
using settings::Option;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

// A command that has ended by then has cost nothing for the features of longer ones; every launcher needs
// longer to start its first worker.
constexpr milliseconds short_run{100};
constexpr milliseconds between_memory_looks{100};
constexpr milliseconds longest_between_memory_looks{10'000};

constexpr std::chrono::seconds between_metrics{1};

/// The text that a kubelet shows if rankshim was killed before it could write more.
std::string killed_meanwhile(const std::string& what) {
  return "rankshim, at " + json::moment(system_clock::now()).substr(0, 19) + "Z: " + what +
         "; if nothing follows, the container was killed before rankshim could write more";
}

std::string the_limit(const MemoryReading& reading) {
  return "the memory limit" + (reading.limit ? " of " + node::mebibytes(*reading.limit) : std::string());
}

/// Has v1 report changes of the file by this eventfd.
bool register_at(const std::string& control, int eventfd, const std::string& file) {
  const UniqueFd counters(open(file.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd registry(open(control.c_str(), O_WRONLY | O_CLOEXEC));
  const std::string both = fmt::format("{} {}", eventfd, counters.number());
  return counters.number() >= 0 && registry.number() >= 0 &&
         write(registry.number(), both.data(), both.size()) == static_cast<ssize_t>(both.size());
}

}  // namespace

Monitor::Monitor(boost::asio::io_context& io, const settings::Settings& settings, const node::Host& host)
    : settings_(settings),
      host_(host),
      termination_log_(std::string(settings.text(Option::termination_log))),
      timer_(io.get_executor()),
      memory_events_(io),
      memory_timer_(io.get_executor()),
      metrics_file_(std::string(settings.text(Option::metrics_file))),
      metrics_timer_(io.get_executor()),
      socket_(io, status::Question::status,
              [this](const status::Socket::Reply& reply) { reply(report::status_json(snapshot())); }),
      stacks_socket_(
          io, status::Question::stacks,
          [this](const status::Socket::Reply& reply) {
            view_.look
                ? view_.look(reply)
                : reply(
                      json::Object().flag("failed", failed_).texts("lines", {"no worker is running"}).str());
          }),
      metrics_socket_(io, status::Question::metrics, [this](const status::Socket::Reply& reply) {
        const report::Snapshot now = snapshot();
        reply(json::Object()
                  .text("phase", now.phase)
                  .flag("failed", now.failed)
                  .text("metrics", report::as_metrics(now))
                  .str());
      }) {}

void Monitor::enter(std::string_view phase, std::string waiting_for, link::Time when) {
  end_phase(when);
  phases_.push_back({phase, when});
  calendar_ = system_clock::now().time_since_epoch() -
              std::chrono::duration_cast<system_clock::duration>(steady_clock::now().time_since_epoch());
  waiting_for_ = std::move(waiting_for);
  if (!waiting_for_.empty()) begin();
  log::context().phase = phase;
  changed();
}

/// The phase that lasts. A launcher's start is over with its first worker.
report::Phase Monitor::phase() const {
  report::Phase last = phases_.back();
  const auto launcher = last.name == "launch" ? launcher_.lock() : nullptr;
  if (launcher == nullptr || launcher->record().states.empty()) return last;
  return {"run", std::max(last.begin, launcher->record().first_at.value_or(last.begin))};
}

void Monitor::end_phase(link::Time when) {
  if (phases_.empty()) return;
  const report::Phase last = phase();
  spent_[phases_.back().name] += last.begin - phases_.back().begin;
  spent_[last.name] += std::max(when - last.begin, link::Time::duration(0));
}

void Monitor::set_job(const launchers::Job& job) {
  job_ = &job;
  log::Context& known = log::context();
  known.node_rank = job.topology.node_rank();
  known.nnodes = job.topology.nodes();
  known.platform = job.topology.platform.name();
  known.run_id = job.topology.facts.text(Fact::run_id);
  changed();
}

void Monitor::set_link(const std::shared_ptr<link::Link>& link) {
  link_ = link;
  if (metrics_file_.is_wanted()) link->on_news([this] { changed(); });
}

void Monitor::set_exit(int code, outcome::Cause cause) {
  last_exit_ = {code, cause};
  if (const auto link = link_.lock()) last_nodes_ = link->nodes();
  changed();
}

void Monitor::finish() try {
  if (!metrics_file_.is_wanted()) return;
  metrics_timer_.cancel();
  end_phase(steady_clock::now());
  phases_.push_back({"ended", steady_clock::now()});
  metrics_file_.write(report::as_metrics(snapshot()));
} catch (const std::exception& error) {
  loop::go_on_after(error);
}

void Monitor::changed() try {
  if (!metrics_file_.is_wanted() || metrics_are_due_) return;
  metrics_timer_.expires_at(std::max(steady_clock::now(), metrics_at_ + between_metrics));
  metrics_timer_.async_wait([this](const boost::system::error_code& error) {
    metrics_are_due_ = false;
    if (error) return;
    metrics_at_ = steady_clock::now();
    metrics_file_.write(report::as_metrics(snapshot()));
  });
  metrics_are_due_ = true;
} catch (const std::exception& error) {
  loop::go_on_after(error);
}

void Monitor::begin() {
  if (begun_) return;
  begun_ = true;
  timer_.expires_after(short_run);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !failed_) look_around();
  });
}

void Monitor::look_around() {
  memory_before_ = node::read_memory(host_);
  if (command_ != 0) on_command();
  if (!memory_before_->events.empty()) watch_memory();
  open_socket();
}

void Monitor::open_socket() {
  std::vector<std::string> folders = {"/dev/shm", "/tmp"};
  if (const auto temporary = host_.environment().get("TMPDIR")) folders.emplace_back(*temporary);
  node::remove_folders_of_ended_containers(folders, host_.host_name());
  const auto where = status::socket_folders(settings_.text(Option::run_dir), host_.environment());
  socket_.open(where);
  stacks_socket_.open(where);
  metrics_socket_.open(where);
}

void Monitor::held() {
  enter("held");
  failed_ = true;
  timer_.cancel();
  memory_timer_.cancel();
  boost::system::error_code ignored;
  memory_events_.close(ignored);  // the verdict stays in the termination log
  open_socket();
}

/// Called a moment after the command's start, or at its start if the moment is over by then.
void Monitor::on_command() {
  if (memory_before_->kills_all) {
    const std::string what =
        "memory.oom.group is set: a process over " + the_limit(*memory_before_) + " ends the whole container";
    log::info("{}", what);
    // At once: a process that takes the last of the memory in one step leaves no time between the limit and
    // KILL.
    termination_log_.provisional(killed_meanwhile(what));
  }
  if (!is_last_) return;  // the next attempt gets the same descriptors
  for (const Option file : {Option::report, Option::termination_log}) {
    const std::string_view path = settings_.text(file);  // of a shell's >(COMMAND): written at the end
    if (path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")) return;
  }
  supervise::close_what_was_passed_on();
}

/// v2 reports a change of memory.events as a modification (cgroup-v2.rst, "memory.events"). v1 adds to an
/// eventfd when the limit is reached and no memory is left, before it kills; a container's cgroup is often
/// read-only, and then it tells nothing (cgroup-v1/memory.rst, "OOM Control").
void Monitor::watch_memory() {
  const std::string& file = memory_before_->events;
  const std::string& control = memory_before_->control;
  const bool v2 = control.empty();
  const int descriptor =
      v2 ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (descriptor < 0 || loop::assign_fd(memory_events_, descriptor) != 0) return;
  const bool watches = v2 ? inotify_add_watch(descriptor, file.c_str(), IN_MODIFY) >= 0
                          : register_at(control, descriptor, file);
  if (watches) listen_for_memory();
}

void Monitor::listen_for_memory() {
  memory_events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                            [this](const boost::system::error_code& error) {
                              if (!error) on_memory_event();
                            });
}

void Monitor::on_memory_event() {
  std::array<char, 4096> events{};
  // Equal events in a row are one. Asio's own read would wait for one if there is none: it may take another
  // descriptor's event, which was closed in the same moment, for this one's (loop.h, Timer).
  [[maybe_unused]] const ssize_t taken = read(memory_events_.native_handle(), events.data(), events.size());
  look_at_memory();
}

/// Under memory pressure the counters rise all the time, so the next look is a moment away. By then a process
/// that was killed has its KILL, and where the kernel told of it before (v1), it is counted. While none is
/// killed (the page cache is at the limit), the looks become rare: ended() looks by itself.
void Monitor::look_at_memory() {
  const MemoryReading reading = memory();
  if (!has_told_of_limit_ && reading.pressed > memory_before_->pressed) {
    has_told_of_limit_ = true;
    termination_log_.provisional(killed_meanwhile(the_limit(reading) + " was reached"));
  }
  const bool rose = oom_kills_.count(reading.oom_kills, steady_clock::now());
  memory_pause_ = rose ? between_memory_looks : std::min(2 * memory_pause_, longest_between_memory_looks);
  try {
    memory_timer_.expires_after(memory_pause_);
  } catch (...) {
    listen_for_memory();  // the kernel reports a change every 10 ms at most (linux:kernel/cgroup/cgroup.c)
    throw;
  }
  memory_timer_.async_wait([this, rose, kills = reading.oom_kills](const boost::system::error_code& error) {
    if (error) return;
    if (memory().oom_kills > kills) return look_at_memory();
    if (rose) note_who_runs(kills);
    listen_for_memory();
  });
}

void Monitor::note_who_runs(std::uint64_t kills) {
  oom_kills_.outlived(kills, node::running_processes());
  log::debug("the kernel has killed a process because the memory limit was reached; the others keep running");
}

void Monitor::ended(pid_t process, std::optional<link::Time> started) {
  const auto now = steady_clock::now();
  oom_kills_.count(memory().oom_kills, now);  // where the kernel reports no change, this is the first look
  oom_.try_emplace(process, oom_kills_.evidence(process, started, now));
}

MemoryReading Monitor::memory() const {
  if (!memory_before_ || !memory_before_->known) return {};
  MemoryReading reading = node::read_memory(host_);
  reading.oom_kills -= std::min(memory_before_->oom_kills, reading.oom_kills);
  return reading;
}

void Monitor::started(pid_t command) {
  command_ = command;
  if (memory_before_) on_command();  // the moment passed while rankshim waited
  begin();
  changed();
}

void Monitor::begin_attempt(unsigned number, bool is_last,
                            const std::shared_ptr<supervise::Workers>& launcher) {
  launcher_ = launcher;
  attempt_ = number;
  log::context().attempt = number;
  is_last_ = is_last;
  command_ = 0;
  if (memory_before_) memory_before_ = node::read_memory(host_);  // kills count from here
  oom_kills_ = {};
  oom_.clear();
  changed();
}

void Monitor::end_attempt(const report::Verdict& verdict, const supervise::ExitRecord& record) {
  end_phase(steady_clock::now());
  last_exit_ = {verdict.code, verdict.cause};
  ++restarts_[report::culprit_of(verdict).cause];
  report::remember(past_attempts_, {.number = attempt_,
                                    .code = verdict.code,
                                    .sentence = report::wording::sentence(verdict),
                                    .phases = std::exchange(phases_, {}),
                                    .first_worker_at = record.workers.first_at,
                                    .end = steady_clock::now()});
  termination_log_.finish({});  // it was true of the attempt that has ended
  enter("restart");
}

void Monitor::stopping(int signal) {
  enter("wind-down");
  termination_log_.provisional(killed_meanwhile(signal_name(signal) + " came, and the job was stopping"));
}

void Monitor::command_ended() {
  if (phases_.back().name != "wind-down") enter("wind-down");
}

void Monitor::add_to(report::ExitReport& report) const {
  report.phases = phases_;
  report.past_attempts = past_attempts_;
  report.attempt = attempt_;
  if (const auto link = link_.lock()) {
    report.nodes = link->nodes();
    report.history = link->history();
  }
}

report::Snapshot Monitor::snapshot() const {
  const report::Phase lasting = phase();
  const auto launcher = launcher_.lock();
  const auto link = link_.lock();
  const std::string missing = link != nullptr ? link->waiting() : "";
  return {.phase = lasting.name,
          .since = lasting.begin,
          .failed = failed_,
          .waiting_for = missing.empty() ? waiting_for_ : missing,
          .command = command_,
          .attempt = attempt_,
          .topology = job_ != nullptr ? &job_->topology : nullptr,
          .host = host_.host_name(),
          .prepared = prepared_ ? prepared_() : std::nullopt,
          .slow = view_.slow ? view_.slow() : "",
          .hang = view_.hang ? view_.hang() : "",
          .workers = launcher != nullptr ? launcher->record() : supervise::WorkerRecord{},
          .nodes = link != nullptr ? link->nodes() : last_nodes_,
          .history = link != nullptr ? link->history() : std::vector<link::Members::Tenure>(),
          .spent = spent_,
          .restarts = restarts_,
          .last_exit = last_exit_,
          .calendar = calendar_};
}

}  // namespace rankshim::run
