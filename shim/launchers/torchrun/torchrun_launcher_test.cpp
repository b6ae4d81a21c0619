#include "launchers/torchrun/torchrun_launcher.h"

#include <catch2/catch.hpp>

#include "run/plan_for_test.h"

namespace rankshim::launchers {
namespace {

using node::FakeHost;

using namespace run::for_test;

TEST_CASE(
    "workers whose script we launch are recorded, with our folder before what the user has in PYTHONPATH") {
  const FakeHost host(kubeflow);
  const ShownPlan script = planned(host, {"train.py"});
  REQUIRE(script.site);
  CHECK(script.site->records);
  CHECK_FALSE(script.site->had_path);
  CHECK_FALSE(script.site->job);
  CHECK(environment_of(script, host).get("PYTHONPATH") == "/tmp/rankshim-XXXXXX");
  CHECK_FALSE(planned(host, {"--no-record", "train.py"}).site);

  const FakeHost own({"PYTHONPATH=/a:/b", "TMPDIR=/scratch"});
  const ShownPlan with_path = planned(own, {"train.py"});
  CHECK(with_path.site->had_path);
  CHECK(environment_of(with_path, own).get("PYTHONPATH") == "/scratch/rankshim-XXXXXX:/a:/b");
  const ShownPlan program = planned(own, {"python", "train.py"});  // alone: its own exception is recorded
  CHECK(program.site);
  const ShownPlan shell = planned(own, {"bash", "run.sh"});  // alone
  CHECK_FALSE(shell.site);
  CHECK(environment_of(shell, own).get("PYTHONPATH") == "/a:/b");
}

TEST_CASE("the workers of a launcher by its own name are recorded on a lone node, too") {
  const FakeHost host({});
  for (const auto& command : {std::vector<std::string>{"/venv/bin/accelerate", "launch", "x.py"},
                              {"bash", "-c", "cd /app && deepspeed x.py"},
                              {"timeout", "60", "fabric", "run", "x.py"}}) {
    CAPTURE(command);
    const ShownPlan program = planned(host, command);
    REQUIRE(program.site);
    CHECK(program.site->job == node::Variables{});  // its Python keeps our folder for them
    const auto environment = environment_of(program, host);
    CHECK(environment.get("TORCHELASTIC_ERROR_FILE") ==
          std::string(environment.get("PYTHONPATH").value()) + "/error.json");
  }
  CHECK_FALSE(planned(host, {"bash", "-c", "accelerate config"}).site);
}

TEST_CASE(
    "a torchrun inside a program on several nodes gets the job's variables, and no other process does") {
  const FakeHost host(
      {"NNODES=3", "NODE_RANK=1", "NPROC_PER_NODE=8", "MASTER_ADDR=m", "MASTER_PORT=1234", "PET_NNODES=3"});
  const ShownPlan program = planned(host, {"bash", "run.sh"});
  REQUIRE(program.site);
  CHECK(program.site->job == node::Variables{{"PET_NPROC_PER_NODE", "8"},
                                             {"PET_NODE_RANK", "1"},
                                             {"PET_MASTER_ADDR", "m"},
                                             {"PET_MASTER_PORT", "1234"},
                                             {"PET_RDZV_ENDPOINT", "m:1234"},
                                             {"PET_RDZV_ID", "rankshim"},
                                             {"PET_RDZV_CONF", "is_host=false"},
                                             {"PET_LOCAL_ADDR", ""}});
  CHECK(program.site->master.empty());  // a name, as far as is known
  CHECK(planned(host, {"--master-addr=10.0.0.1", "bash", "run.sh"}).site->master == "10.0.0.1");
  CHECK(program.site->records);
  CHECK_FALSE(environment_of(program, host).has("PET_NODE_RANK"));
  CHECK_FALSE(environment_of(program, host).has("TORCHELASTIC_ERROR_FILE"));
  const ShownPlan launcher = planned(host, {"deepspeed", "t.py"});  // knows no such file, but its workers do
  CHECK(environment_of(launcher, host).get("TORCHELASTIC_ERROR_FILE") ==
        "/dev/shm/rankshim-XXXXXX/error.json");
  CHECK_FALSE(planned(host, {"--no-export-pet", "bash", "run.sh"}).site);
  CHECK_FALSE(planned(host, {"train.py"}).site->job);
  CHECK_FALSE(planned(FakeHost({}), {"bash", "run.sh"}).site);
}

TEST_CASE("torchrun behind another program joins the link, and gets its log folder where it runs") {
  const FakeHost host(kubeflow);
  const ShownPlan front = planned(host, {"torchrun", "t.py"});
  const ShownPlan wrapped = planned(host, {"timeout", "100", "torchrun", "t.py"});
  Words expected = front.argv;
  std::erase_if(expected, [](const std::string& word) { return word.starts_with("--log_dir="); });
  expected.insert(expected.begin(), {"timeout", "100"});
  CHECK(wrapped.argv == expected);
  CHECK(wrapped.links);
  CHECK(wrapped.wait == front.wait);
  CHECK(wrapped.python.empty());  // uv run has another one than PATH
  CHECK(wrapped.site->job == node::Variables{});
  CHECK_FALSE(environment_of(wrapped, host).has("TORCHELASTIC_ERROR_FILE"));
  CHECK(planned(host, {"--no-record", "timeout", "100", "torchrun", "t.py"}).site);
  CHECK(planned(host, {"--launcher=none", "timeout", "100", "torchrun", "t.py"}).launcher->name() == "none");
}

TEST_CASE("a torchrun that joins without a link is worth a note") {
  FakeHost host(kubeflow);
  host.files["run.sh"] = "torchrun t.py";
  const auto note = [&](const Words& line) { return planned(host, line).note; };
  CHECK_THAT(note({"bash", "-c", "torchrun t.py | tee log"}),
             Catch::Contains("because bash starts torchrun"));
  CHECK_FALSE(note({"./launch", "--now", "torchrun", "t.py"}).empty());
  CHECK_FALSE(note({"bash", "run.sh"}).empty());
  CHECK(note({"--link=on", "bash", "run.sh"}).empty());
  CHECK(note({"--link=off", "bash", "run.sh"}).empty());
  CHECK(note({"timeout", "9", "torchrun", "t.py"}).empty());
  CHECK(note({"bash", "other.sh"}).empty());
  CHECK(planned(FakeHost({}), {"bash", "run.sh"}).note.empty());
}

TEST_CASE("a torchrun whose PYTHONPATH is replaced gets the job's variables themselves") {
  FakeHost host({"NNODES=3", "NODE_RANK=1", "MASTER_ADDR=m", "PATH=/usr/bin"});
  host.files["keeps.sh"] = "torchrun t.py";
  host.files["own.sh"] = "export PYTHONPATH=$PWD\ntorchrun t.py";
  host.files["alone.sh"] = "export PYTHONPATH=$PWD\ntorchrun --standalone t.py";
  host.files["other.sh"] = "export PYTHONPATH=$PWD\npython t.py";
  const auto gets = [&host](const Words& line) {
    return environment_of(planned(host, line), host).get("PET_NNODES") == "3";
  };
  CHECK(gets({"bash", "own.sh"}));
  CHECK(gets({"./own.sh", "x"}) == false);  // not a name that the node's files have
  CHECK(gets({"own.sh"}));
  CHECK(gets({"bash", "-c", "PYTHONPATH=. torchrun t.py"}));
  CHECK(gets({"sh", "-c", "unset PYTHONPATH; python -m torch.distributed.run t.py"}));
  for (const Words& line : {Words{"bash", "keeps.sh"},
                            {"bash", "alone.sh"},
                            {"bash", "other.sh"},
                            {"bash", "-c", "torchrun t.py"},
                            {"bash", "-c", "PYTHONPATH=. torchrun --nnodes=1 t.py"},
                            {"--no-export-pet", "bash", "own.sh"}}) {
    CAPTURE(line);
    CHECK_FALSE(gets(line));
  }
}

TEST_CASE("a command that is torchrun is the launcher, and gets the flags that the user left out") {
  FakeHost host(kubeflow);
  host.programs = {"/usr/bin/python3", "/usr/bin/torchrun"};
  const ShownPlan result =
      planned(host, {"torchrun", "--nproc-per-node", "2", "--max_restarts=1", "train.py", "--nnodes", "9"});
  CHECK(result.launcher->name() == "torchrun");
  CHECK(shell_quote(result.argv) ==
        "torchrun --nnodes=3 --rdzv_backend=static --node_rank=1 --master_addr=job-master-0 "
        "--master_port=23456 --rdzv_id=rankshim --log_dir=/tmp/rankshim-XXXXXX --nproc-per-node 2 "
        "--max_restarts=1 train.py --nnodes 9");
  CHECK(result.scope == SignalScope::handlers);
  CHECK(result.wait == wait::Until::port);
  CHECK(environment_of(result, host).has("TORCHELASTIC_ERROR_FILE"));

  const Words module = {"python3", "-u", "-m", "torch.distributed.run", "-m", "train"};
  CHECK(shell_quote(planned(host, module).argv)
            .starts_with("python3 -u -m torch.distributed.run --nnodes=3 --nproc_per_node=1 "));
  CHECK(planned(host, module).python == Words{"python3", "-u"});
  CHECK(shell_quote(planned(host, {"-m", "torch.distributed.run", "train.py"}).argv)
            .starts_with("python3 -u -m torch.distributed.run --nnodes=3 "));
  Words none = {"--launcher=none", "--"};
  none.insert(none.end(), module.begin(), module.end());
  CHECK(planned(host, none).argv == module);
}

TEST_CASE("--torchrun-args are torchrun's own options, behind rankshim's and before the user's") {
  FakeHost host(kubeflow);
  host.programs = {"/usr/bin/python3", "/usr/bin/torchrun"};
  const auto argv = [&](Words words) { return shell_quote(planned(host, std::move(words)).argv); };
  CHECK_THAT(
      argv({"--torchrun-args=--tee 3 -r=1 --log-dir=/logs", "--torchrun-args=--new-in-2.99=x", "train.py"}),
      Catch::EndsWith(" --max_restarts=0 --tee=3 --redirects=1 --log_dir=/logs --new-in-2.99=x train.py"));
  CHECK(planned(host, {"--torchrun-args=--log-dir=/logs", "train.py"}).log_dir == "/logs");
  CHECK_THAT(argv({"--torchrun-args=--role=a", "torchrun", "--role=b", "train.py"}),
             Catch::StartsWith("torchrun --nnodes=3 ") && Catch::EndsWith(" --role=a --role=b train.py"));
  CHECK_THAT(argv({"--log-dir=/a", "--torchrun-args=--log-dir=/b", "torchrun", "train.py"}),
             Catch::EndsWith(" --redirects=3 --log_dir=/b train.py") && !Catch::Contains("=/a"));
  CHECK(argv({"--torchrun-args=--role=a", "bash", "run.sh"}) == "bash run.sh");

  const auto fault = [&](const std::string& arguments) {
    const Planned refused = try_plan(host, {"--torchrun-args=" + arguments, "train.py"});
    return to_line(std::get<Faults>(refused.plan).front());
  };
  CHECK_THAT(fault("--nnodes=3"), Catch::Contains("--torchrun-args has --nnodes, which rankshim sets"));
  CHECK_THAT(fault("--rdzv-id 7"), Catch::Contains("--rdzv_id, which"));
  CHECK_THAT(fault("--tee=3 other.py"), Catch::Contains("the word other.py, which is not a torchrun option"));
}

TEST_CASE("a torch without torchrun starts torch.distributed.launch with the flags that it knows") {
  FakeHost host(kubeflow);
  const auto argv = [&](const std::string& script, const Words& options = {}) {
    Words line = options;
    line.push_back(script);
    const auto read = settings::read_settings(line, host);
    const Planned found = try_plan(host, line);
    const Words command = {script};
    KnownAtStart known;
    known.torch = {.has_only_launch = true, .rejected = {"--role=a"}};
    known.folder.path = "/tmp/x";
    const LaunchPlan plan = run::plan_launch(
        std::get<ShownPlan>(found.plan),
        {found.topology, std::get<settings::Invocation>(read).settings, command, host}, known);
    CHECK(plan.agent_name == "torch.distributed.launch");
    return shell_quote(plan.argv);
  };
  const std::string launch =
      "python3 -u -m torch.distributed.launch --nnodes=3 --nproc_per_node=1 "
      "--node_rank=1 --master_addr=job-master-0 --master_port=23456 ";
  host.files["new.py"] = "os.environ['LOCAL_RANK']";
  host.files["old.py"] = "add_argument('--local_rank')";
  CHECK(argv("new.py") == launch + "--use_env new.py");
  CHECK(argv("old.py") == launch + "old.py");
  CHECK(argv("new.py", {"--torchrun-args=--role=a"}) == launch + "--use_env new.py");
  CHECK(argv("new.py", {"--launcher=launch"}) == launch + "new.py");
}

TEST_CASE("the user's own log folder is followed instead of a temporary one") {
  const FakeHost host(kubeflow);
  const ShownPlan result = planned(host, {"torchrun", "--log-dir", "/logs", "train.py"});
  CHECK(result.log_dir == "/logs");
  CHECK(shell_quote(result.argv).find("--log_dir") == std::string::npos);
  CHECK_FALSE(environment_of(result, host).has("TORCHELASTIC_ERROR_FILE"));
}

TEST_CASE("--log-dir gives torchrun the folder and sends the workers' output there") {
  Words environment = kubeflow;
  environment.emplace_back("PET_LOG_DIR=/others");
  FakeHost host(environment);
  host.programs = {"/usr/bin/python3", "/usr/bin/torchrun"};
  const ShownPlan script = planned(host, {"--log-dir=/logs", "train.py"});
  CHECK(script.log_dir == "/logs");
  CHECK(shell_quote(script.argv).ends_with(" --log_dir=/logs --redirects=3 train.py"));
  CHECK_FALSE(environment_of(script, host).has("TORCHELASTIC_ERROR_FILE"));
  const Words own = {"--log-dir=/logs", "torchrun", "--log-dir", "/logs", "-r1", "train.py"};
  CHECK(shell_quote(planned(host, own).argv).ends_with(" --max_restarts=0 --log-dir /logs -r1 train.py"));
  const Words alone = {"--nnodes=1", "--log-dir=/logs", "torchrun", "--standalone", "train.py"};
  CHECK(shell_quote(planned(FakeHost({}), alone).argv)
            .ends_with(" --log_dir=/logs --redirects=3 --standalone train.py"));
}

TEST_CASE("--log-dir for another folder than torchrun's is refused, and for a program it is a warning") {
  const FakeHost host(kubeflow);
  const auto planned_both =
      try_plan(host, {"--log-dir=/logs", "torchrun", "--log_dir=/own", "train.py"}).plan;
  const auto* faults = std::get_if<Faults>(&planned_both);
  REQUIRE(faults != nullptr);
  CHECK(to_line(faults->front()) ==
        "--log-dir=/logs, but the command's --log_dir is /own; give only one of them [R23]");
  CHECK(shell_quote(planned(host, {"--log-dir=/logs", "--tee", "train.py"}).argv)
            .ends_with(" --log_dir=/logs --tee=3 train.py"));
  const ShownPlan program = planned(host, {"--log-dir=/logs", "bash", "run.sh"});
  CHECK_THAT(program.warnings.back(), Catch::StartsWith("--log-dir, --tee and --prefix are for workers"));
  CHECK(program.log_dir.empty());
}

TEST_CASE("torchrun inside processes that exist already is a program, with a warning") {
  const FakeHost host({"RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=m"});
  const Words command = {"--rank-unit=process", "torchrun", "train.py"};
  CHECK(planned(host, command).argv == Words{"torchrun", "train.py"});
  CHECK_THAT(planned(host, command).warnings.at(0), Catch::Contains("in each of them"));
}

TEST_CASE("torchrun's first line names the interpreter that needs torch") {
  FakeHost host(kubeflow);
  host.programs = {"/usr/bin/torchrun"};
  host.files["/usr/bin/torchrun"] = "#!/opt/venv/bin/python3\nimport sys\n";
  CHECK(planned(host, {"torchrun", "train.py"}).python == Words{"/opt/venv/bin/python3"});
  host.files["/usr/bin/torchrun"] = "#!/bin/sh\n'''exec' /a/python \"$0\" \"$@\"\n";
  CHECK(planned(host, {"torchrun", "train.py"}).python.empty());
}

}  // namespace
}  // namespace rankshim::launchers
