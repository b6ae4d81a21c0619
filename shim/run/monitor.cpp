#include "run/monitor.h"

#include <algorithm>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/private_folder.h"
#include "report/wording.h"
#include "supervise/signals.h"
#include "supervise/spawn.h"

namespace rankshim::run {
namespace {

using report::PhaseName;
using settings::Option;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

// A command that ends sooner pays nothing for the features of longer ones. Every launcher takes longer than
// this to start its first worker.
constexpr milliseconds short_run{100};
constexpr std::chrono::seconds between_metrics{1};

}  // namespace

Monitor::Monitor(boost::asio::io_context& io, const settings::Settings& settings, const node::Host& host)
    : settings_(settings),
      host_(host),
      termination_log_(std::string(settings.text(Option::termination_log))),
      timer_(io.get_executor()),
      memory_(io, host,
              [this](const std::string& limit) {
                note_kill_risk({.kind = report::KillRisk::Kind::limit_reached, .limit = limit});
              }),
      metrics_file_(std::string(settings.text(Option::metrics_file))),
      metrics_timer_(io.get_executor()),
      socket_(io, status::Question::status,
              [this](const status::Socket::Reply& reply) { reply(report::status_json(snapshot())); }),
      stacks_socket_(
          io, status::Question::stacks,
          [this](const status::Socket::Reply& reply) {
            if (view_.look) return view_.look(reply);
            reply(json::Object().flag("failed", failed_).texts("lines", {"no worker is running"}).str());
          }),
      metrics_socket_(io, status::Question::metrics, [this](const status::Socket::Reply& reply) {
        const report::Snapshot now = snapshot();
        reply(json::Object()
                  .text("phase", report::name(now.phase))
                  .flag("failed", now.failed)
                  .text("metrics", report::as_metrics(now))
                  .str());
      }) {}

void Monitor::enter(PhaseName phase, std::string waiting_for, link::Time when) {
  end_phase(when);
  phases_.push_back({phase, when});
  calendar_ = system_clock::now().time_since_epoch() -
              std::chrono::duration_cast<system_clock::duration>(steady_clock::now().time_since_epoch());
  waiting_for_ = std::move(waiting_for);
  if (!waiting_for_.empty()) begin();
  log::context().phase = report::name(phase);
  changed();
}

/// The current phase. A launcher's start is over with its first worker.
report::Phase Monitor::phase() const {
  report::Phase last = phases_.back();
  const auto launcher = last.name == PhaseName::launch ? launcher_.lock() : nullptr;
  if (launcher == nullptr || launcher->record().states.empty()) return last;
  return {PhaseName::run, std::max(last.begin, launcher->record().first_at.value_or(last.begin))};
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
  phases_.push_back({PhaseName::ended, steady_clock::now()});
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
  memory_.begin();
  if (command_ != 0) on_command();
  memory_.watch();
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
  enter(PhaseName::held);
  failed_ = true;
  timer_.cancel();
  memory_.end();  // so that the verdict stays in the termination log
  open_socket();
}

/// Called a moment after the command's start, or at its start if the moment has already passed.
void Monitor::on_command() {
  if (const auto limit = memory_.limit_that_kills_all()) {
    const report::KillRisk risk{.kind = report::KillRisk::Kind::kills_all, .limit = *limit};
    log::info("{}", report::wording::in_words(risk));
    // Write this at once: a process that takes the last memory in one step leaves no time between the limit
    // and KILL.
    note_kill_risk(risk);
  }
  if (!is_last_) return;  // the next attempt gets the same descriptors
  for (const Option file : {Option::report, Option::termination_log}) {
    const std::string_view path = settings_.text(file);  // may be a shell's >(COMMAND), written at the end
    if (path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")) return;
  }
  supervise::close_what_was_passed_on();
}

void Monitor::started(pid_t command) {
  command_ = command;
  if (memory_.has_begun()) on_command();  // the moment passed while rankshim waited
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
  memory_.begin_attempt();
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
  termination_log_.finish({});  // it was about the attempt that has ended
  enter(PhaseName::restart);
}

void Monitor::note_kill_risk(const report::KillRisk& risk) {
  termination_log_.provisional(report::wording::provisional(risk, system_clock::now()));
}

void Monitor::stopping(int signal) {
  enter(PhaseName::wind_down);
  note_kill_risk({.kind = report::KillRisk::Kind::stopping, .signal = signal});
}

void Monitor::command_ended() {
  if (phases_.back().name != PhaseName::wind_down) enter(PhaseName::wind_down);
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
