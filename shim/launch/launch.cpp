#include "launch/launch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "launch/program_warnings.h"
#include "launch/temporary_folder.h"
#include "topology/python_words.h"
#include "torchrun/torchrun_flags.h"
#include "torchrun/torchrun_job.h"

namespace rankshim {
namespace {

using platform::Granularity;

/// Flags of torchrun that the environment can turn on and the command line cannot turn off, or that would
/// speak for another job than ours (torch/distributed/run.py, check_env and env).
constexpr std::array<std::string_view, 15> pet_ours = {
    "PET_NNODES",     "PET_NODE_RANK",    "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT",
    "PET_RDZV_ID",    "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT",  "PET_RDZV_CONF",   "PET_STANDALONE",
    "PET_LOCAL_ADDR", "PET_MAX_RESTARTS", "PET_MODULE",         "PET_NO_PYTHON",   "PET_RUN_PATH"};

/// Variables that say how torchrun starts the script, rather than where.
bool is_script_kind(std::string_view name) {
  return name == "PET_MODULE" || name == "PET_NO_PYTHON" || name == "PET_RUN_PATH";
}

/// The interpreter for scripts: the first folder of PATH that has python3 or python decides which.
std::string interpreter(const Settings& settings, const Node& node) {
  if (const auto& chosen = settings[Option::python]) return chosen->text;
  const auto python3 = node.find_program("python3");
  const auto python = node.find_program("python");
  if (!python) return "python3";
  if (!python3) return "python";
  std::string_view path = node.environment().get("PATH").value_or("");
  const auto position = [&](const std::string& program) {
    return path.find(std::string_view(program).substr(0, program.rfind('/')));
  };
  return position(*python) < position(*python3) ? "python" : "python3";
}

class Planner {
 public:
  Planner(const Topology& topology, const Settings& settings, const std::vector<std::string>& command,
          const Node& node, const std::optional<std::string>& master_address)
      : topology_(topology),
        settings_(settings),
        command_(command),
        node_(node),
        master_address_(master_address),
        torchrun_(own_torchrun(settings, command)) {}

  Outcome<LaunchPlan> plan() {
    choose_launcher();
    if (!topology_.idle_role.empty()) check_idle();
    if (!faults_.empty()) return std::move(faults_);
    change_environment();
    build_argv();
    choose_scope();
    choose_wait();
    if (command_.empty()) return std::move(plan_);
    if (plan_.launcher != Launcher::none) {
      warn_script();
    } else {
      for (std::string& warning : program_warnings(topology_, settings_, command_, node_))
        plan_.warnings.push_back(std::move(warning));
    }
    plan_.missing = find_missing();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::string_view text(Fact fact) const { return topology_.facts.text(fact); }

  /// Whether the command goes through a launcher where nothing forbids it.
  [[nodiscard]] bool can_launch() const { return is_script(command_) || torchrun_; }

  void choose_launcher() {
    const std::string_view wanted = settings_.text(Option::launcher);
    const bool per_node = topology_.granularity == Granularity::node;
    if (wanted == "torchrun") plan_.launcher = Launcher::torchrun;
    if (wanted == "launch") plan_.launcher = Launcher::launch;
    if (wanted == "auto" && can_launch() && per_node) plan_.launcher = Launcher::torchrun;
    if (torchrun_ && !per_node) {
      plan_.warnings.push_back(
          fmt::format("{} has already started one process per accelerator, and torchrun would start workers "
                      "in each of them; give the script to rankshim instead (rankshim -- train.py)",
                      topology_.platform));
      torchrun_.reset();
    }
    if (plan_.launcher == Launcher::none) return;
    const auto& said = *settings_[Option::launcher];
    if (!per_node) {
      faults_.push_back(
          {fmt::format("{}={}, but the platform {} has already started one process per accelerator",
                       said.detail, wanted, topology_.platform),
           {said.detail},
           "leave --launcher (RANKSHIM_LAUNCHER) at auto"});
    } else if (!command_.empty() && !can_launch()) {
      faults_.push_back(
          {fmt::format("{}={} starts a script, but {} is a program", said.detail, wanted, command_[0]),
           {said.detail},
           "give script.py or -m MODULE, or leave --launcher (RANKSHIM_LAUNCHER) at auto"});
    }
  }

  void check_idle() {
    const std::string what = fmt::format("this container's role on {} is '{}' ({})", topology_.platform,
                                         topology_.idle_role, topology_.idle_because);
    if (!can_launch()) {
      plan_.warnings.push_back(what + ", which does not train; the program runs as it is");
      return;
    }
    faults_.push_back({fmt::format("{}, where {} would train alone", what, command_[0]), topology_.idle_names,
                       fmt::format("{}, or say this node's place with --platform=generic, --nnodes, "
                                   "--node-rank and --master-addr (RANKSHIM_PLATFORM, …)",
                                   topology_.idle_fix.empty() ? "start it where the job's training tasks run"
                                                              : topology_.idle_fix)});
  }

  void change_environment() {
    const Environment& environment = node_.environment();
    auto& change = plan_.environment;
    change = environment_change(topology_, node_);
    const bool launches = plan_.launcher != Launcher::none;
    if (topology_.alone && topology_.platform == "none" && !launches) change.set.clear();
    if (launches) {
      for (const std::string_view name : pet_ours) {
        if (!environment.has(name)) continue;
        // How the user's own torchrun starts his script is his.
        if (torchrun_ && environment.get(name) && is_script_kind(name)) continue;
        std::erase_if(change.set, [&](const auto& entry) { return entry.first == name; });
        if (std::find(change.unset.begin(), change.unset.end(), name) == change.unset.end()) {
          change.unset.emplace_back(name);
        }
      }
      // A rank 0 that survives could take no new node in: MASTER_ADDR is not published for the new round
      // (torch 2.13).
      constexpr std::string_view share = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";
      if (topology_.elastic && !environment.get(share)) change.set.emplace_back(share, "1");
      if (const auto* flag = torchrun_ ? torchrun_->find("log_dir") : nullptr) {
        plan_.log_dir = flag->value;
      } else {
        plan_.log_dir = std::string(environment.get("PET_LOG_DIR").value_or(""));
      }
      if (!environment.get(agent_error_variable) && plan_.log_dir.empty())
        change.set.emplace_back(agent_error_variable,
                                agent_error_file(temporary_folder_template(node_, plan_.launcher)));
    }
    add_site(launches);
    share_cpus(launches);
    if (launches) set_for_stop(environment);
    for (const std::string& entry : environment.entries()) {
      if (entry.starts_with("RANKSHIM_")) change.unset.emplace_back(entry_name(entry));
    }
  }

  /// Our part in Python's start: where there is a worker to record, or a torchrun that could train alone.
  void add_site(bool launches) {
    if (command_.empty()) return;
    const bool created = topology_.granularity == Granularity::process;
    const bool records = settings_.flag(Option::record);
    const bool worker = records && (launches || (created && is_script(command_)));
    const bool joins = settings_.flag(Option::export_pet) && !launches && !created && !topology_.alone &&
                       topology_.idle_role.empty();
    if (!worker && !joins) return;
    const Environment& environment = node_.environment();
    const std::string folder = temporary_folder_template(node_, plan_.launcher);
    const auto path = environment.get(python_path_variable);
    // A folder with a colon would be two in PYTHONPATH, and a text above the kernel's limit for one would
    // keep the command from being executed (execve(2), MAX_ARG_STRLEN).
    constexpr std::size_t longest_path = std::size_t{120} << 10U;
    if (folder.find(':') != std::string::npos || (path && path->size() > longest_path)) return;
    PythonSite site{.had_path = path.has_value(), .job = {}, .records = records};
    if (joins)
      site.job =
          torchrun_job(topology_, settings_, node_, master_address_, plan_.environment.apply(environment));
    auto& set = plan_.environment.set;
    set.emplace_back(python_path_variable, folder + (path ? ":" + std::string(*path) : ""));
    if (created && !environment.get(agent_error_variable))
      set.emplace_back(agent_error_variable, agent_error_file(folder));
    plan_.site = std::move(site);
  }

  /// Every worker would start a thread per CPU of the machine; torchrun, where nothing is said, gives each
  /// one thread and a banner.
  void share_cpus(bool launches) {
    const Environment& environment = node_.environment();
    const bool created = topology_.granularity == Granularity::process;
    const unsigned workers = topology_.number(created ? Fact::local_world_size : Fact::nproc_per_node);
    if ((!launches && !created) || workers < 2 || !node_.is_here() || environment.get("OMP_NUM_THREADS"))
      return;
    // Slurm has already shared them out (srun(1), --cpus-per-task).
    const auto per_task =
        created ? parse_count(environment.get("SLURM_CPUS_PER_TASK").value_or("")) : std::nullopt;
    const unsigned threads = per_task ? *per_task : node_.cpus().count / workers;
    plan_.environment.set.emplace_back("OMP_NUM_THREADS", fmt::format("{}", std::max(threads, 1U)));
  }

  /// How torchrun and its workers end, where the user left that open: torchrun has the same time as we give
  /// it before it kills its workers (torch/distributed/launcher/api.py, whole seconds), and workers that hang
  /// show where (faulthandler in Python's library).
  void set_for_stop(const Environment& environment) {
    auto& set = plan_.environment.set;
    constexpr std::string_view timeout = "TORCH_ELASTIC_SHUTDOWN_TIMEOUT";
    const auto grace = settings_.time(Option::grace);
    if (grace && !environment.get(timeout))
      set.emplace_back(timeout, std::to_string(std::max<std::int64_t>(1, (grace->count() + 999) / 1000)));
    constexpr std::string_view handler = "PYTHONFAULTHANDLER";
    if (settings_.flag(Option::stacks) && !environment.has(handler)) set.emplace_back(handler, "1");
  }

  void build_argv() {
    if (command_.empty()) return;
    const bool by_us = is_script(command_);
    if (by_us) plan_.argv = {interpreter(settings_, node_), "-u"};
    const std::size_t own_words = plan_.argv.size();
    if (plan_.launcher == Launcher::none) {
      plan_.argv.insert(plan_.argv.end(), command_.begin(), command_.end());
      return;
    }
    const std::string log_dir =
        plan_.log_dir.empty() ? temporary_folder_template(node_, plan_.launcher) : std::string();
    auto flags = torchrun_flags(topology_, settings_, node_, master_address_, log_dir);
    if (torchrun_) {
      plan_.python = by_us ? plan_.argv : torchrun_->interpreter;
      if (!torchrun_->program.empty()) plan_.python = interpreter_of(torchrun_->program);
      const auto argv = fill_in(command_, *torchrun_, topology_, std::move(flags));
      plan_.argv.insert(plan_.argv.end(), argv.begin(), argv.end());
      return;
    }
    plan_.python.assign(plan_.argv.begin(), plan_.argv.begin() + static_cast<std::ptrdiff_t>(own_words));
    plan_.argv.insert(plan_.argv.end(), {"-m", "torch.distributed.run"});
    for (const TorchrunFlag& flag : flags)
      plan_.argv.push_back(fmt::format("--{}={}", flag.name, flag.value));
    plan_.argv.insert(plan_.argv.end(), command_.begin(), command_.end());
    if (plan_.launcher != Launcher::launch) return;
    // Behind the script, as torch.distributed.launch does it; torchrun puts the number in
    // (torch/distributed/elastic/utils/api.py, macros).
    const auto script = plan_.argv.end() - static_cast<std::ptrdiff_t>(command_.size());
    plan_.argv.insert(script + (command_[0] == "-m" ? 2 : 1), local_rank_spelling() + "=${local_rank}");
  }

  /// torch from 2.0 on passes --local-rank, and before --local_rank: the script gets the one that it reads.
  /// The older one where that does not show: who needs the argument is mostly older than 2.0.
  [[nodiscard]] std::string local_rank_spelling() const {
    std::string path = command_[0];
    if (path == "-m") {
      path = command_.size() > 1 ? command_[1] : std::string();
      std::replace(path.begin(), path.end(), '.', '/');
      path += ".py";
    }
    const std::string text = node_.file(path).value_or("");
    const bool only_dash =
        text.find("--local-rank") != std::string::npos && text.find("--local_rank") == std::string::npos;
    return only_dash ? "--local-rank" : "--local_rank";
  }

  /// The interpreter that a torchrun's first line names; nothing where it names another program.
  [[nodiscard]] std::vector<std::string> interpreter_of(const std::string& program) const {
    const std::string text = node_.file(node_.find_program(program).value_or("")).value_or("");
    const std::string line = text.substr(0, text.find('\n'));
    if (!line.starts_with("#!") || line.find(' ') != std::string::npos) return {};
    std::vector<std::string> python = {line.substr(2)};
    if (!base_name(python[0]).starts_with("python")) return {};
    return python;
  }

  /// What would be found out only after the waiting, or by Python and with another code. A program that waits
  /// for nothing is executed at once, which says it better.
  [[nodiscard]] std::string find_missing() const {
    if (!node_.is_here()) return {};
    if (plan_.launcher == Launcher::none && plan_.wait == Until::none && !is_script(command_)) return {};
    const std::string& program = plan_.argv.front();
    // A file that is there and cannot be executed is another matter: executing it says why.
    const bool is_path = program.find('/') != std::string::npos;
    if (!node_.find_program(program) && !(is_path && node_.file(program))) {
      if (!is_script(command_))
        return fmt::format("{} was not found{}{}", program, is_path ? "" : " in PATH",
                           subcommand_hint(program));
      const auto& chosen = settings_[Option::python];
      return chosen ? fmt::format("{}={} was not found", chosen->detail, chosen->text)
                    : "neither python3 nor python is in PATH; set RANKSHIM_PYTHON (--python)";
    }
    std::string script;
    if (torchrun_) {
      script = torchrun_->script(command_);
    } else if (is_script(command_) && command_[0] != "-m") {
      script = command_[0];
    }
    // A folder with a __main__.py is one too, and a shell's <(…) can be read only once.
    if (script.empty() || script.starts_with("/dev/") || node_.file(script) ||
        node_.file(script + "/__main__.py"))
      return {};
    return fmt::format("the script {} cannot be read", script);
  }

  void choose_scope() {
    using supervise::SignalScope;
    const std::string_view wanted = settings_.text(Option::signal_scope);
    if (wanted == "child") plan_.scope = SignalScope::child;
    if (wanted == "group") plan_.scope = SignalScope::group;
    if (wanted == "tree") plan_.scope = SignalScope::tree;
    // torchrun passes TERM, INT, HUP and QUIT to its workers itself; its group would reach those of old
    // versions twice.
    if (wanted == "auto" && plan_.launcher != Launcher::none) plan_.scope = SignalScope::child;
  }

  void choose_wait() {
    const std::string_view wanted = settings_.text(Option::wait);
    const bool has_master = topology_.facts.has(Fact::master_addr) && topology_.idle_role.empty();
    if (!has_master || wanted == "none") return;
    const std::string_view master = text(Fact::master_addr);
    if (wanted == "auto") {
      // `rankshim wait` has no command: it was asked for the master itself, not for its name alone.
      const bool joins = plan_.launcher != Launcher::none || command_.empty() ||
                         topology_.granularity == Granularity::process;
      const bool needs_no_wait = topology_.alone && (is_literal(master) || is_localhost_name(master));
      if (topology_.platform == "none" || needs_no_wait) return;
      plan_.wait = joins ? Until::port : Until::name;
    } else {
      plan_.wait = wanted == "port" ? Until::port : Until::name;
    }
    if (plan_.wait == Until::port && topology_.host.value_or(false))
      plan_.wait = Until::name;  // the port is ours to open
  }

  void warn_script() {
    if (plan_.launcher == Launcher::launch || torchrun_ || command_[0] == "-m") return;
    const auto source = node_.file(command_[0]);
    if (!source) return;
    const bool old_flag = source->find("--local_rank") != std::string::npos ||
                          source->find("--local-rank") != std::string::npos;
    if (!old_flag || source->find("LOCAL_RANK") != std::string::npos) return;
    plan_.warnings.push_back(fmt::format(
        "{} mentions --local_rank and not LOCAL_RANK: if it needs the argument, use --launcher=launch",
        command_[0]));
  }

  const Topology& topology_;
  const Settings& settings_;
  const std::vector<std::string>& command_;
  const Node& node_;
  const std::optional<std::string>& master_address_;
  std::optional<TorchrunCommand> torchrun_;  ///< the command, where it is the launcher
  LaunchPlan plan_;
  Faults faults_;
};

}  // namespace

std::optional<TorchrunCommand> own_torchrun(const Settings& settings,
                                            const std::vector<std::string>& command) {
  if (settings.text(Option::launcher) == "none") return std::nullopt;
  return read_torchrun(command);
}

bool is_script(const std::vector<std::string>& command) {
  return !command.empty() && (command[0] == "-m" || command[0].ends_with(".py"));
}

Outcome<LaunchPlan> plan_launch(const Topology& topology, const Settings& settings,
                                const std::vector<std::string>& command, const Node& node,
                                const std::optional<std::string>& master_address) {
  return Planner(topology, settings, command, node, master_address).plan();
}

}  // namespace rankshim
