#include "launch/launch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "launch/temporary_folder.h"

namespace rankshim {
namespace {

using platform::Granularity;

/// Flags of torchrun that the environment can turn on and the command line cannot turn off, or that would
/// speak for another job than ours (torch/distributed/run.py, check_env and env).
constexpr std::array<std::string_view, 15> pet_ours = {
    "PET_NNODES",     "PET_NODE_RANK",    "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT",
    "PET_RDZV_ID",    "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT",  "PET_RDZV_CONF",   "PET_STANDALONE",
    "PET_LOCAL_ADDR", "PET_MAX_RESTARTS", "PET_MODULE",         "PET_NO_PYTHON",   "PET_RUN_PATH"};

std::string without_brackets(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return std::string(host);
}

/// The interpreter for scripts: the first folder of PATH that has python3 or python decides which.
std::string interpreter(const Settings& settings, const Node& node, std::vector<std::string>& warnings) {
  if (const auto& chosen = settings[Option::python]) {
    if (!node.find_program(chosen->text)) {
      warnings.push_back(fmt::format("{}={} cannot be executed", chosen->detail, chosen->text));
    }
    return chosen->text;
  }
  const auto python3 = node.find_program("python3");
  const auto python = node.find_program("python");
  if (!python3 && !python) {
    warnings.emplace_back("neither python3 nor python is in PATH; set RANKSHIM_PYTHON (--python)");
    return "python3";
  }
  if (!python3 || !python) return python3 ? "python3" : "python";
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
        master_address_(master_address) {}

  Outcome<LaunchPlan> plan() {
    choose_launcher();
    if (!topology_.idle_role.empty()) check_idle();
    if (!faults_.empty()) return std::move(faults_);
    change_environment();
    build_argv();
    choose_scope();
    choose_wait();
    if (plan_.launcher == Launcher::none && !command_.empty() && !is_script(command_)) warn_program();
    if (is_script(command_)) warn_script();
    return std::move(plan_);
  }

 private:
  [[nodiscard]] std::string_view text(Fact fact) const { return topology_.facts.text(fact); }

  void choose_launcher() {
    const std::string_view wanted = settings_.text(Option::launcher);
    const bool per_node = topology_.granularity == Granularity::node;
    if (wanted == "torchrun") plan_.launcher = Launcher::torchrun;
    if (wanted == "launch") plan_.launcher = Launcher::launch;
    if (wanted == "auto" && is_script(command_) && per_node) plan_.launcher = Launcher::torchrun;
    if (plan_.launcher == Launcher::none) return;
    const auto& said = *settings_[Option::launcher];
    if (!per_node) {
      faults_.push_back(
          {fmt::format("{}={}, but the platform {} has already started one process per accelerator",
                       said.detail, wanted, topology_.platform),
           {said.detail},
           "leave --launcher (RANKSHIM_LAUNCHER) at auto"});
    } else if (!command_.empty() && !is_script(command_)) {
      faults_.push_back(
          {fmt::format("{}={} starts a script, but {} is a program", said.detail, wanted, command_[0]),
           {said.detail},
           "give script.py or -m MODULE, or leave --launcher (RANKSHIM_LAUNCHER) at auto"});
    }
  }

  void check_idle() {
    const std::string what =
        fmt::format("this container's role on {} is '{}'", topology_.platform, topology_.idle_role);
    if (!is_script(command_)) {
      plan_.warnings.push_back(what + ", which does not train; the program runs as it is");
      return;
    }
    faults_.push_back({fmt::format("{}, where {} would train alone", what, command_[0]),
                       {topology_.platform},
                       "start it on the training nodes, or set RANKSHIM_PLATFORM (--platform)"});
  }

  void change_environment() {
    const Environment& environment = node_.environment();
    auto& change = plan_.environment;
    change = environment_change(topology_, settings_, node_);
    const bool launches = plan_.launcher != Launcher::none;
    if (topology_.alone && topology_.granularity == Granularity::node && !launches) change.set.clear();
    if (launches) {
      for (const std::string_view name : pet_ours) {
        if (!environment.has(name)) continue;
        std::erase_if(change.set, [&](const auto& entry) { return entry.first == name; });
        if (std::find(change.unset.begin(), change.unset.end(), name) == change.unset.end()) {
          change.unset.emplace_back(name);
        }
      }
      // A rank 0 that survives could take no new node in: MASTER_ADDR is not published for the new round
      // (torch 2.13).
      constexpr std::string_view share = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE";
      if (topology_.elastic && !environment.get(share)) change.set.emplace_back(share, "1");
      if (!environment.get(agent_error_variable) && !environment.get("PET_LOG_DIR"))
        change.set.emplace_back(agent_error_variable, agent_error_file(temporary_folder_template(node_)));
    }
    add_site(launches);
    share_cpus(launches);
    if (launches) set_for_stop(environment);
    for (const std::string& entry : environment.entries()) {
      if (entry.starts_with("RANKSHIM_")) change.unset.emplace_back(entry_name(entry));
    }
  }

  /// Our part in Python's start, where there is a worker to record.
  void add_site(bool launches) {
    const bool worker = topology_.granularity == Granularity::process && is_script(command_);
    if (!settings_.flag(Option::record) || !(launches || worker)) return;
    const Environment& environment = node_.environment();
    const std::string folder = temporary_folder_template(node_);
    const auto path = environment.get(python_path_variable);
    auto& set = plan_.environment.set;
    set.emplace_back(python_path_variable, python_folder(folder) + (path ? ":" + std::string(*path) : ""));
    if (worker && !environment.get(agent_error_variable))
      set.emplace_back(agent_error_variable, agent_error_file(folder));
    plan_.site = PythonSite{.had_path = path.has_value(), .job = {}, .records = true};
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
    if (!is_script(command_)) {
      plan_.argv = command_;
      return;
    }
    plan_.argv = {interpreter(settings_, node_, plan_.warnings), "-u"};
    if (plan_.launcher != Launcher::none) add_launcher();
    plan_.argv.insert(plan_.argv.end(), command_.begin(), command_.end());
  }

  void flag(std::string_view name, std::string_view value) {
    plan_.argv.push_back(fmt::format("--{}={}", name, value));
  }

  /// Underscores and full names: the one spelling that every version of torch takes (research: torchrun).
  void add_launcher() {
    plan_.argv.emplace_back("-m");
    plan_.argv.emplace_back(plan_.launcher == Launcher::launch ? "torch.distributed.launch"
                                                               : "torch.distributed.run");
    flag("nnodes", text(Fact::nnodes));
    flag("nproc_per_node", text(Fact::nproc_per_node));
    if (topology_.elastic) {
      add_elastic();
    } else {
      flag("rdzv_backend", "static");
      flag("node_rank", text(Fact::node_rank));
      flag("master_addr", without_brackets(text(Fact::master_addr)));
      flag("master_port", text(Fact::master_port));
      flag("rdzv_id", text(Fact::run_id));
      if (topology_.facts.has(Fact::rdzv_conf)) flag("rdzv_conf", text(Fact::rdzv_conf));
    }
    flag("max_restarts", text(Fact::max_restarts));
    if (!node_.environment().get("PET_LOG_DIR")) flag("log_dir", temporary_folder_template(node_));
  }

  void add_elastic() {
    const std::string_view backend = text(Fact::rdzv_backend);
    flag("rdzv_backend", backend);
    flag("rdzv_endpoint",
         fmt::format("{}:{}", without_brackets(text(Fact::master_addr)), text(Fact::master_port)));
    flag("rdzv_id", text(Fact::rdzv_id));
    std::string conf(text(Fact::rdzv_conf));
    if (backend == "c10d" && conf.find("is_host=") == std::string::npos) {
      conf = fmt::format("is_host={}{}{}", topology_.host.value_or(false) ? "true" : "false",
                         conf.empty() ? "" : ",", conf);
    }
    if (!conf.empty()) flag("rdzv_conf", conf);
    // Two agents that are both PID 1 and share a host name count as one node without it; and it is what rank
    // 0 tells the others to connect to.
    if (const std::string own = local_address(); !own.empty()) flag("local_addr", own);
  }

  [[nodiscard]] std::string local_address() const {
    if (const auto& said = settings_[Option::local_addr]) return said->text;
    return node_.address_towards(master_address_.value_or(std::string(text(Fact::master_addr)))).value_or("");
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
    using wait::Until;
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

  /// Where the platform counts WORLD_SIZE in processes and RANK in nodes, env:// in a program would wait for
  /// ever.
  void warn_program() {
    const Environment& environment = node_.environment();
    const auto world = parse_count(environment.get("WORLD_SIZE").value_or(""));
    const auto rank = parse_count(environment.get("RANK").value_or(""));
    const unsigned nnodes = topology_.number(Fact::nnodes);
    const unsigned nproc = topology_.number(Fact::nproc_per_node);
    if (topology_.granularity != Granularity::node || nnodes < 2 || nproc < 2 || !world || !rank) return;
    if (*world != nnodes * nproc || *rank != topology_.number(Fact::node_rank)) return;
    plan_.warnings.push_back(
        fmt::format("WORLD_SIZE={} counts processes but RANK={} counts nodes: a program that joins by them "
                    "waits for ever; give "
                    "the script to rankshim instead (rankshim -- train.py)",
                    *world, *rank));
  }

  void warn_script() {
    if (plan_.launcher == Launcher::launch || command_[0] == "-m") return;
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
  LaunchPlan plan_;
  Faults faults_;
};

}  // namespace

bool is_script(const std::vector<std::string>& command) {
  return !command.empty() && (command[0] == "-m" || command[0].ends_with(".py"));
}

Outcome<LaunchPlan> plan_launch(const Topology& topology, const Settings& settings,
                                const std::vector<std::string>& command, const Node& node,
                                const std::optional<std::string>& master_address) {
  return Planner(topology, settings, command, node, master_address).plan();
}

}  // namespace rankshim
