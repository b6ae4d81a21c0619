#include "node/slurm_step.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

using namespace rankshim;

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
  CHECK_FALSE(has_signalled_whole_step(getpid(), Environment({"SLURM_STEP_ID=0"})));
  CHECK_FALSE(has_signalled_whole_step(0, Environment({"SLURM_STEP_ID=0"})));
}
