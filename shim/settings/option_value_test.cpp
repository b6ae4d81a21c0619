#include "settings/settings.h"

#include <catch2/catch.hpp>

namespace rankshim::settings {
namespace {

/// Whether the option's value may be that text.
bool takes(Option option, std::string_view text) { return parse(info(option), text).has_value(); }

TEST_CASE("each kind of option takes what it allows and refuses the rest") {
  struct Row {
    Option option;
    std::vector<std::string> right, wrong;
  };
  const auto row = GENERATE(values<Row>({
      {Option::master_addr, {"any text"}, {}},
      {Option::log_format, {"json"}, {"text|json", "JSON", ""}},
      {Option::node_rank, {"0", "7"}, {"-1", "+1", "x", "1.5", ""}},
      {Option::nnodes, {"1", "2:4", "3:3"}, {"0", "4:2", "2:", ":2", "x", "1:2:3"}},
      {Option::nproc_per_node, {"1", "auto", "gpu", "cpu"}, {"0", "gpus"}},
      {Option::master_port, {"1", "65535"}, {"0", "65536", "x"}},
      {Option::grace, {"10m"}, {"10 m"}},
      {Option::tee, {"1", "true", "0", "false"}, {"yes"}},
      {Option::exit_map, {"3=0,oom=1"}, {"3=256"}},
      {Option::job_restarts, {"0", "3", "3/1h"}, {"x", "3/", "/1h", "3/0", "3/1 h", "-1"}},
      {Option::permanent, {"2", "64-78,oom,lost"}, {"78-64", "256", "2,,3", "stopped"}},
      {Option::parent_death_signal, {"USR1"}, {"USR3"}},
      {Option::warm,
       {"off", "auto", "auto,transformers", "a.b_2"},
       {"auto,off", "a,,b", "2a", "a..b", "a-b"}},
      {Option::worker_signals, {"none", "USR1,RTMIN+3"}, {"USR1,USR3"}},
      {Option::rewrite_signal, {"TERM=INT,HUP=none"}, {"KILL=TERM"}},
      {Option::env, {"A=1\nB="}, {"A=1\n=2", "A"}},
      {Option::torchrun_args, {"--a --b"}, {}},
  }));
  for (const std::string& text : row.right) {
    INFO(text);
    CHECK(takes(row.option, text));
  }
  for (const std::string& text : row.wrong) {
    INFO(text);
    CHECK_FALSE(takes(row.option, text));
  }
}

TEST_CASE("what is taken is parsed, once") {
  using std::chrono::milliseconds;
  CHECK(std::get<milliseconds>(*parse(info(Option::grace), "10m")) == std::chrono::minutes(10));
  CHECK(std::get<bool>(*parse(info(Option::tee), "1")));
  CHECK(std::get<node::Variables>(*parse(info(Option::env), "A=1\nB==")) ==
        node::Variables{{"A", "1"}, {"B", "="}});
  CHECK(std::get<std::vector<std::string>>(*parse(info(Option::torchrun_args), " --a  --b ")) ==
        std::vector<std::string>{"--a", "--b"});
}

TEST_CASE("a message about a wrong choice lists the choices") {
  CHECK(wanted(info(Option::log_format)) == "one of text, json");
}

}  // namespace
}  // namespace rankshim::settings
