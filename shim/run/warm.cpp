#include "run/warm.h"

#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "loop/loop.h"
#include "node/cgroup.h"
#include "plan/launch.h"
#include "supervise/prepared.h"

namespace rankshim::run {

using boost::asio::awaitable;
using node::Process;
using settings::Option;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using supervise::Prepared;

namespace {

/// When to check whether an attempt has started up; at the last of these it is taken to have.
constexpr std::array looks_at_start{5s, 10s, 20s, 40s, 60s};
constexpr std::chrono::minutes import_timeout{10};  // enough for a cold file system
/// If all nodes are there, they meet in milliseconds, and anything started meanwhile would only get in the
/// way.
constexpr std::chrono::milliseconds head_start{100};

/// Whether there is plenty of memory: imports must not take it away from training.
bool has_clear_room(const node::Host& host) {
  constexpr std::uint64_t least = std::uint64_t{1} << 30U;
  const node::AvailableMemory memory = node::available_memory(host);
  return memory.free >= least && memory.free >= memory.total / 4;
}

/// Whether each of these workers has reported a process group (python/sitecustomize.py, answer_questions).
bool all_have_started(const std::vector<supervise::WorkerState>& workers, const std::string& folder) {
  return !workers.empty() && std::ranges::all_of(workers, [&](const supervise::WorkerState& worker) {
    return access(fmt::format("{}/look.{}", folder, worker.pid).c_str(), F_OK) == 0;
  });
}

bool wants_warm(const AttemptInput& input) {
  const auto& [topology, choice] = input.job;
  const settings::Settings& settings = input.run.settings;
  return settings.text(Option::warm) != "off" && choice.launcher->can_start_early() &&
         !input.command.empty() && !settings.flag(Option::ctty) && !input.run.preflight &&
         !input.run.only_wait;
}

}  // namespace

struct Warm::State {
  AttemptInput input;
  bool wanted = false;
  loop::Event changed;  ///< signalled when a prepared process has advanced, or preparing is over
  unsigned round = 0;   ///< incremented when what is being prepared is no longer wanted
  /// Whether this Python imports rankshim's startup module; nullopt if not known yet.
  std::optional<bool> imports_module;
  std::unique_ptr<Launch> launch;                ///< what is prepared
  std::vector<supervise::Command> commands;      ///< its command or workers, each with its process
  std::shared_ptr<Prepared> probe;               ///< the process that shows that
  std::vector<std::shared_ptr<Prepared>> taken;  ///< by the running attempt
  std::vector<Process> ending;                   ///< those that were killed, or are ending
  std::string working_directory;                 ///< the one that rankshim leaves while a command runs
  rlimit open_files{};                           ///< the limit before a link raises it

  [[nodiscard]] bool is_asked_for() const {
    return input.run.settings[Option::warm]->origin != Origin::fallback;
  }
  /// Logs what matters to a user who asked for --warm.
  void tell(std::string_view what) const {
    log::logger().log(is_asked_for() ? log::Level::info : log::Level::debug, "{}", what);
  }
  std::shared_ptr<Prepared> start(const supervise::Command& command, std::string_view modules);
  awaitable<void> until_imported(std::shared_ptr<Prepared> process, unsigned of_round);
  void wait_for_ends() const;
  void end();

  static awaitable<bool> ask_gate(std::shared_ptr<State> self, unsigned of_round);
  static awaitable<void> prepare(std::shared_ptr<State> self, unsigned number,
                                 std::optional<std::string> master_address, bool beside_training);
  static awaitable<void> prepare_in_meeting(std::shared_ptr<State> self, unsigned number);
  static awaitable<void> prepare_after_start(std::shared_ptr<State> self, unsigned number, std::string folder,
                                             std::weak_ptr<supervise::Workers> workers,
                                             std::optional<std::string> master_address);
};

std::shared_ptr<Prepared> Warm::State::start(const supervise::Command& command, std::string_view modules) {
  supervise::Command early = command;
  early.working_directory = working_directory;
  const supervise::Spawn::Start how{.detached = input.job.choice.launcher->starts_each_worker(),
                                    .ignored = launch->ignored};
  return Prepared::start(input.run.io, early, how, modules, [this] {
    changed.signal();
    input.run.monitor.changed();
  });
}

awaitable<void> Warm::State::until_imported(std::shared_ptr<Prepared> process, unsigned of_round) {
  using enum Prepared::State;
  const auto end = steady_clock::now() + import_timeout;
  const auto imports = [&] { return process->state() == starting || process->state() == at_gate; };
  while (round == of_round && imports() && steady_clock::now() < end) co_await changed.wait(end);
}

/// Waits briefly for killed processes to end. Until then they may write to rankshim's folder (Python's
/// __pycache__), which is removed next.
void Warm::State::wait_for_ends() const {
  constexpr std::chrono::milliseconds patience{100};
  const auto until = steady_clock::now() + patience;
  const auto runs = [](const Process& process) {
    const auto now = node::read_again(process);
    return now && now->alive();
  };
  while (std::ranges::any_of(ending, runs) && steady_clock::now() < until) poll(nullptr, 0, 1);
}

/// Ends what is prepared.
void Warm::State::end() {
  ++round;
  changed.signal();
  std::erase_if(ending, [](const Process& process) { return !node::read_again(process); });
  for (const supervise::Command& command : commands)
    if (command.prepared) ending.push_back(command.prepared->process());
  const bool has_files = launch && !commands.empty() && !input.job.choice.log_dir.empty();
  commands.clear();
  input.run.monitor.changed();
  probe.reset();
  if (launch) wait_for_ends();
  std::error_code ignored;  // what is left there is empty
  if (has_files && !launch->workers->record().error_folder.empty())
    std::filesystem::remove_all(launch->workers->record().error_folder, ignored);
  launch.reset();
}

/// Finds out whether Python imports rankshim's startup module. With -I and the like it does not, and the
/// script would run too early.
awaitable<bool> Warm::State::ask_gate(std::shared_ptr<State> self, unsigned of_round) {
  const auto python = plan::read_python(self->launch->plan.argv);
  if (!python || python->interpreter.empty() || !self->launch->folder.own().has_site) co_return false;
  supervise::Command command = self->launch->command;
  command.argv = python->interpreter;
  command.argv.insert(command.argv.end(), {"-c", "pass"});
  self->probe = self->start(command, "-");
  self->ending.push_back(self->probe->process());
  const auto end = steady_clock::now() + import_timeout;
  while (self->round == of_round && self->probe->state() == Prepared::State::starting &&
         steady_clock::now() < end)
    co_await self->changed.wait(end);
  if (self->round != of_round) co_return false;
  const bool answers = self->probe->has_answered();
  self->probe.reset();
  co_return answers;
}

awaitable<void> Warm::State::prepare(std::shared_ptr<State> self, unsigned number,
                                     std::optional<std::string> master_address, bool beside_training) {
  const unsigned of_round = self->round;
  // Without /proc, these processes cannot be told from the command's.
  if (!node::all_processes()) co_return;
  const auto has_room = [&] {
    return !beside_training || self->is_asked_for() || has_clear_room(self->input.run.host);
  };
  if (!has_room()) {
    log::debug("nothing is prepared for a restart: memory is short");
    co_return;
  }
  self->launch = std::make_unique<Launch>(self->input, number, master_address);
  self->launch->command.open_files = self->open_files;
  if (!self->imports_module) {
    const bool answers = co_await ask_gate(self, of_round);
    if (self->round != of_round) co_return;
    self->imports_module = answers;
    if (!answers)
      self->tell(self->input.run.settings.flag(Option::record)
                     ? "nothing is prepared: this Python does not import rankshim's startup module"
                     : "nothing is prepared: --no-record leaves out rankshim's startup module");
  }
  if (!*self->imports_module) co_return self->end();
  self->commands = self->launch->commands();
  for (std::size_t at = 0; at < self->commands.size() && has_room(); ++at) {
    const auto process = self->start(self->commands[at], self->launch->modules);
    self->commands[at].prepared = process;
    if (!beside_training) continue;
    co_await self->until_imported(process, of_round);
    if (self->round != of_round) co_return;
  }
}

awaitable<void> Warm::State::prepare_in_meeting(std::shared_ptr<State> self, unsigned number) {
  const unsigned of_round = self->round;
  const auto begin = steady_clock::now() + head_start;
  while (self->round == of_round && steady_clock::now() < begin) co_await self->changed.wait(begin);
  if (self->round == of_round && !self->launch) co_await prepare(self, number, std::nullopt, false);
}

awaitable<void> Warm::State::prepare_after_start(std::shared_ptr<State> self, unsigned number,
                                                 std::string folder,
                                                 std::weak_ptr<supervise::Workers> workers,
                                                 std::optional<std::string> master_address) {
  const unsigned of_round = self->round;
  const auto begun = steady_clock::now();
  for (const std::chrono::seconds after : looks_at_start) {
    while (self->round == of_round && steady_clock::now() < begun + after)
      co_await self->changed.wait(begun + after);
    const auto running = workers.lock();
    if (self->round != of_round || !running) co_return;
    if (all_have_started(running->running_workers(), folder)) break;
  }
  co_await prepare(self, number, std::move(master_address), true);
}

Warm::Warm(const AttemptInput& input)
    : state_(new State{.input = input,
                       .wanted = wants_warm(input),
                       .changed = loop::Event(input.run.io.get_executor()),
                       .imports_module = {},
                       .launch = {},
                       .commands = {},
                       .probe = {},
                       .taken = {},
                       .ending = {}}) {
  input.run.monitor.set_prepared([this] { return status(); });
  if (!state_->wanted) return;
  getrlimit(RLIMIT_NOFILE, &state_->open_files);
  std::error_code unknown;
  state_->working_directory = std::filesystem::current_path(unknown);
}

Warm::~Warm() {
  drop();
  state_->input.run.monitor.set_prepared(nullptr);
}

void Warm::before_meeting(unsigned number, bool waits) {
  const auto& [topology, choice] = state_->input.job;
  waits = waits || (topology.has_other_nodes() && (choice.links || choice.wait != wait::Until::none));
  if (!state_->wanted || !waits || state_->launch) return;
  loop::spawn(state_->input.run.io, State::prepare_in_meeting(state_, number));
}

void Warm::prepare_spare(unsigned number) {
  if (!state_->wanted || (state_->launch && state_->launch->number == number)) return;
  state_->end();
  loop::spawn(state_->input.run.io, State::prepare(state_, number, std::nullopt, false));
}

void Warm::prepare_next(const Launch& running, const std::optional<std::string>& master_address) {
  if (!state_->wanted) return;
  loop::spawn(state_->input.run.io,
              State::prepare_after_start(state_, running.number + 1, running.folder.own().path,
                                         running.workers, master_address));
}

void Warm::started() {
  for (const auto& process : state_->taken)
    if (!process->may_go()) state_->tell("a prepared process is not used: " + process->why());
}

std::unique_ptr<Launch> Warm::take(unsigned number, const std::optional<std::string>& master_address) {
  State& state = *state_;
  std::unique_ptr<Launch> launch;
  const bool is_for_attempt = state.launch && state.launch->number == number && !state.commands.empty();
  const auto late =
      is_for_attempt ? state.launch->update(state.input, master_address, state.commands) : std::nullopt;
  state.taken.clear();
  if (late) {
    launch = std::move(state.launch);
    for (std::size_t at = 0; at < late->size(); ++at) {
      const std::shared_ptr<Prepared>& prepared = state.commands[at].prepared;
      if (!prepared) continue;
      for (const std::string& entry : (*late)[at]) prepared->add(entry);
      state.taken.push_back(prepared);
    }
    if (state.input.job.choice.launcher->starts_each_worker())
      launch->workers->set_prepared(std::move(state.commands));
    else
      launch->command.prepared = std::move(state.commands.front().prepared);
    state.commands.clear();
  } else if (!state.commands.empty()) {
    state.tell("what was prepared is not what this attempt needs: it starts in the ordinary way");
  }
  state.end();
  return launch;
}

void Warm::drop() try { state_->end(); } catch (const std::exception& error) {
  loop::go_on_after(error);
}

std::vector<Process> Warm::processes() const {
  std::vector<Process> all = state_->ending;
  for (const supervise::Command& command : state_->commands)
    if (command.prepared) all.push_back(command.prepared->process());
  for (const auto& process : state_->taken)
    if (!process->may_go()) all.push_back(process->process());
  return all;
}

std::optional<report::PreparedAttempt> Warm::status() const {
  if (state_->commands.empty()) return std::nullopt;
  const auto is_ready = [](const supervise::Command& command) {
    return command.prepared && command.prepared->state() == Prepared::State::ready;
  };
  return report::PreparedAttempt{
      .number = state_->launch->number,
      .processes = state_->commands.size(),
      .ready = static_cast<std::size_t>(std::ranges::count_if(state_->commands, is_ready))};
}

}  // namespace rankshim::run
