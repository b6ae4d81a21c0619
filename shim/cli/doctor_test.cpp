#include <algorithm>
#include <catch2/catch.hpp>

#include "base/json.h"
#include "cli/subcommands.h"
#include "node/fake_host_for_test.h"

namespace rankshim::cli::doctor {
namespace {

using node::DeviceCount;

/// A node and container at which nothing is wrong; a test spoils one thing.
struct Case {
  node::FakeHost host;
  ContainerState container;

  explicit Case(std::vector<std::string> variables = {}) : host(std::move(variables)) {
    host.files = {{"/proc/self/limits",
                   "Limit                     Soft Limit           Hard Limit           Units     \n"
                   "Max open files            65536                65536                files     \n"
                   "Max locked memory         unlimited            unlimited            bytes     \n"},
                  {"/proc/self/status", "SigCgt:\t0\nCapEff:\t0000000000080000\n"},
                  {"/proc/sys/kernel/yama/ptrace_scope", "1\n"},
                  {"/proc/self/cgroup", "0::/\n"},
                  {"/sys/fs/cgroup/memory.events", "oom_kill 0\n"},
                  {"/sys/fs/cgroup/memory.max", "17179869184\n"},
                  {"/sys/fs/cgroup/pids.max", "4096\n"},
                  {"/sys/fs/cgroup/pids.current", "9\n"}};
    container.shm = std::uint64_t{8} << 30U;
    container.temporary = "/tmp";
    container.own_name.addresses = {"10.0.0.7"};
    container.now = 1800000000;
    container.python = {"/usr/bin/python3", {}, "3.11.7", true, "2.13.0", false};
    container.workers = 2;
  }

  [[nodiscard]] Finding about(std::string_view subject) const {
    const auto findings = diagnose(container, host);
    const auto found = std::ranges::find(findings, subject, &Finding::subject);
    REQUIRE(found != findings.end());
    return *found;
  }
};

void limit(Case& it, std::string_view name, std::string_view value) {
  it.host.files["/proc/self/limits"] = std::string(name) + "  " + std::string(value) + "  unlimited  bytes\n";
}

TEST_CASE("where nothing is wrong every line of the doctor is ok") {
  Case it;
  it.container.several_nodes = true;
  it.container.master = "job-master-0";
  it.container.masters_name.addresses = {"10.0.0.1"};
  it.host.devices = DeviceCount{2, "/dev/nvidia[0-9]*"};
  it.container.python.for_accelerators = true;
  for (const Finding& finding : diagnose(it.container, it.host)) {
    INFO(finding.subject << ": " << finding.text);
    CHECK(finding.severity == Severity::ok);
  }
}

TEST_CASE("the doctor says what gVisor's /proc does not show") {
  Case it;
  CHECK(it.about("signals").severity == Severity::ok);
  it.host.files["/proc/self/status"] = "CapEff:\t0000000000080000\n";
  const Finding finding = it.about("signals");
  CHECK(finding.severity == Severity::warning);
  CHECK_THAT(finding.text, Catch::Contains("gVisor"));
}

TEST_CASE("the doctor names what is wrong, with its value and what to do") {
  struct Row {
    std::string_view subject;
    Severity severity;
    std::string_view part;  ///< of the text
    void (*spoil)(Case&);
  };
  const auto row = GENERATE(
      Row{"/dev/shm", Severity::problem, "is not mounted", [](Case& it) { it.container.shm.reset(); }},
      Row{"/dev/shm", Severity::warning, "has 64 MiB in total",
          [](Case& it) { it.container.shm = std::uint64_t{64} << 20U; }},
      Row{"/dev/shm", Severity::problem, "too small for NCCL",
          [](Case& it) {
            it.container.shm = std::uint64_t{64} << 20U;
            it.host.devices = DeviceCount{2, "/dev/nvidia[0-9]*"};
          }},
      Row{"locked memory", Severity::ok, "limited to 8 MiB; there is no RDMA device",
          [](Case& it) { limit(it, "Max locked memory", "8388608"); }},
      Row{"locked memory", Severity::problem, "limited to 8 MiB, and RDMA needs it unlimited",
          [](Case& it) {
            limit(it, "Max locked memory", "8388608");
            it.host.folders["/sys/class/infiniband"] = {"mlx5_0"};
          }},
      Row{"open files", Severity::warning, "limited to 1024",
          [](Case& it) { limit(it, "Max open files", "1024"); }},
      Row{"processes", Severity::problem, "91 of 100 are left (pids.max), too few for 2 workers",
          [](Case& it) { it.host.files["/sys/fs/cgroup/pids.max"] = "100\n"; }},
      Row{"processes", Severity::ok, "not limited",
          [](Case& it) { it.host.files["/sys/fs/cgroup/pids.max"] = "max\n"; }},
      Row{"memory", Severity::problem, "is limited to 512 MiB, and torchrun with 2 workers needs 900 MiB",
          [](Case& it) { it.host.files["/sys/fs/cgroup/memory.max"] = "536870912\n"; }},
      Row{"own name", Severity::warning, "fake-host has no address",
          [](Case& it) { it.container.own_name = {}; }},
      Row{"own name", Severity::problem, "fake-host has no address",
          [](Case& it) {
            it.container.own_name = {};
            it.container.several_nodes = true;
          }},
      Row{"own name", Severity::warning, "fake-host is 127.0.1.1, which no other node can reach",
          [](Case& it) {
            it.container.own_name.addresses = {"127.0.1.1"};
            it.container.several_nodes = true;
          }},
      Row{"master's name", Severity::problem, "job-master-0 does not resolve",
          [](Case& it) {
            it.container.master = "job-master-0";
            it.container.masters_name.why = "job-master-0 does not resolve";
          }},
      Row{"python", Severity::problem, "python3 was not found in PATH; name the interpreter",
          [](Case& it) { it.container.python = {.missing = "python3 was not found in PATH"}; }},
      Row{"python", Severity::problem, "/usr/bin/python3 cannot be run",
          [](Case& it) { it.container.python.version.clear(); }},
      Row{"torch", Severity::problem, "was not found by /usr/bin/python3",
          [](Case& it) { it.container.python.has_torch = false; }},
      Row{"torch", Severity::warning, "was not found by /usr/bin/python3",
          [](Case& it) {
            it.container.python.has_torch = false;
            it.container.needs_torch = false;
          }},
      Row{"torch", Severity::warning, "2.13.0 was built for the CPU only",
          [](Case& it) {
            it.container.python.for_accelerators = false;
            it.host.devices = DeviceCount{2, "/dev/nvidia[0-9]*"};
          }},
      Row{"accelerators", Severity::problem, "1 visible (/dev/nvidia[0-9]*), fewer than the 2 workers",
          [](Case& it) { it.host.devices = DeviceCount{1, "/dev/nvidia[0-9]*"}; }},
      Row{"accelerators", Severity::warning,
          "in use by other processes, which may take their memory: /dev/nvidia0: python3 (pid 4711)",
          [](Case& it) {
            it.host.devices = DeviceCount{2, "/dev/nvidia[0-9]*"};
            it.container.holders = {"/dev/nvidia0: python3 (pid 4711)"};
          }},
      Row{"temporary files", Severity::problem, "cannot be written to /tmp",
          [](Case& it) { it.container.temporary_is_writable = false; }},
      Row{"clock", Severity::warning, "is not synchronised",
          [](Case& it) { it.container.clock_is_synchronised = false; }},
      Row{"clock", Severity::problem, "before 2026", [](Case& it) { it.container.now = 5; }},
      Row{"ptrace", Severity::ok, "cannot attach to workers (ptrace_scope 1, no capability SYS_PTRACE)",
          [](Case& it) { it.host.files["/proc/self/status"] = "CapEff:\t0000000000000000\n"; }});
  Case it;
  row.spoil(it);
  const Finding finding = it.about(row.subject);
  INFO(finding.text);
  CHECK(finding.severity == row.severity);
  CHECK(finding.text.find(row.part) != std::string::npos);
}

TEST_CASE("the doctor says what expects accelerators that are not there, and what to do") {
  struct Row {
    std::vector<std::string> variables;
    bool for_accelerators;
    Severity severity;
    std::string_view part;
  };
  using enum Severity;
  for (const Row& row : std::vector<Row>{
           {{}, false, ok, "none are visible; workers run on the CPU"},
           {{},
            true,
            problem,
            "none are visible, but torch 2.13.0 was built for them: start the container with --gpus all"},
           {{"CUDA_VISIBLE_DEVICES=0,1"},
            false,
            problem,
            "none are visible, but CUDA_VISIBLE_DEVICES=0,1 names some: start"},
           {{"ASCEND_RT_VISIBLE_DEVICES=0"}, false, problem, "ASCEND_RT_VISIBLE_DEVICES=0 names some: "},
           {{"CUDA_VISIBLE_DEVICES="},
            true,
            ok,
            "because of CUDA_VISIBLE_DEVICES=''; workers run on the CPU"},
           {{"CUDA_VISIBLE_DEVICES=-1"}, true, ok, "because of CUDA_VISIBLE_DEVICES=-1"}}) {
    Case it(row.variables);
    it.container.python.for_accelerators = row.for_accelerators;
    const Finding finding = it.about("accelerators");
    INFO(finding.text);
    CHECK(finding.severity == row.severity);
    CHECK_THAT(finding.text, Catch::Contains(std::string(row.part)));
    if (row.severity == problem) CHECK_THAT(finding.text, Catch::Contains("resources.limits"));
  }
}

TEST_CASE("what is found of the job comes first, and a control character in it is escaped") {
  Case it;
  it.container.job = {{Severity::problem, "job", "RANK=\x1b is not a number; set it"}};
  const std::string text = as_text(diagnose(it.container, it.host));
  CHECK(text.starts_with("problem  job              RANK=\\x1b is not a number; set it\nok"));
}

TEST_CASE("the doctor's last line counts problems and warnings") {
  struct Row {
    std::vector<Severity> severities;
    std::string line;
  };
  using enum Severity;
  for (const Row& row : std::vector<Row>{{{ok, ok}, "all is well"},
                                         {{}, "all is well"},
                                         {{warning, ok}, "1 warning"},
                                         {{problem, warning, problem}, "2 problems, 1 warning"}}) {
    std::vector<Finding> findings;
    for (const Severity severity : row.severities) findings.push_back({severity, "clock", "is shown"});
    CHECK_THAT(as_text(findings), Catch::EndsWith(row.line + "\n"));
  }
  CHECK(json::field(as_json({{problem, "clock", "is wrong"}}), "findings.0") ==
        R"({"severity":"problem","subject":"clock","text":"is wrong"})");
}

}  // namespace
}  // namespace rankshim::cli::doctor
