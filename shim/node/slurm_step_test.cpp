#include "node/slurm_step.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

using namespace rankshim;
using namespace rankshim::node;

namespace {

/// The file of a cluster with proctrack/linuxproc.
struct SlurmConf {
  SlurmConf() {
    constexpr std::string_view text = "ProctrackType=proctrack/linuxproc\n";
    const int file = mkstemp(path.data());
    REQUIRE(file >= 0);
    const auto written = write(file, text.data(), text.size());
    close(file);
    REQUIRE(written == static_cast<ssize_t>(text.size()));
  }
  ~SlurmConf() { unlink(path.c_str()); }
  SlurmConf(const SlurmConf&) = delete;
  SlurmConf& operator=(const SlurmConf&) = delete;
  std::string path = "/tmp/rankshim-slurm-conf-XXXXXX";
};

}  // namespace

TEST_CASE("only proctrack/linuxproc signals every process of a step", "[node]") {
  struct {
    const char* conf;
    bool every;
  } const cases[] = {
      {"", false},
      {"ClusterName=a\nProctrackType=proctrack/linuxproc\n", true},
      {"proctracktype = Proctrack/LinuxProc  # a small cluster", true},
      {"ProctrackType=proctrack/cgroup\n", false},
      {"ProctrackType=proctrack/pgid\n", false},
      {"#ProctrackType=proctrack/linuxproc\n", false},
      {"ProctrackTypes=proctrack/linuxproc\n", false},
  };
  for (const auto& one : cases) {
    INFO(one.conf);
    CHECK(signals_every_process(one.conf) == one.every);
  }
}

TEST_CASE("a sender that is not slurmstepd has not signalled the whole step", "[node]") {
  const SlurmConf conf;
  const SlurmStep step(Environment({"SLURM_STEP_ID=0", "SLURM_CONF=" + conf.path}));
  CHECK_FALSE(step.has_signalled_all(getpid()));
  CHECK_FALSE(step.has_signalled_all(0));
}

TEST_CASE("slurm.conf is not read again when a signal comes", "[node]") {
  std::array<char, 16> before{};
  REQUIRE(prctl(PR_GET_NAME, before.data(), 0, 0, 0) == 0);
  REQUIRE(prctl(PR_SET_NAME, "slurmstepd", 0, 0, 0) == 0);
  std::optional<SlurmConf> conf(std::in_place);
  const SlurmStep batch(Environment({"SLURM_CONF=" + conf->path}));
  const SlurmStep step(Environment({"SLURM_STEP_ID=0", "SLURM_CONF=" + conf->path}));
  conf.reset();
  CHECK(step.has_signalled_all(getpid()));
  CHECK_FALSE(batch.has_signalled_all(getpid()));
  prctl(PR_SET_NAME, before.data(), 0, 0, 0);
}
