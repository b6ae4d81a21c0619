#include "platform/recognise.h"

#include <catch2/catch.hpp>

#include "node/fake_host_for_test.h"

using namespace rankshim;
using namespace rankshim::platform;

using node::FakeHost;

namespace {

const std::string invented = R"(title = "Invented"
[[match]]
any = ["INVENTED_RANK", "INVENTED_SIZE"]
[facts]
nnodes = "${INVENTED_SIZE}"
node_rank = "${INVENTED_RANK}"
)";

std::string_view document(const ProfileSet& set, std::string_view name) {
  const Profile* profile = find(set.profiles, name);
  return profile == nullptr ? std::string_view() : profile->document;
}

ProfileSet read(const node::Host& host, std::string_view file = {}) {
  auto outcome = read_profiles(file, host);
  if (const auto* faults = std::get_if<Faults>(&outcome)) FAIL(to_line(faults->front()));
  return std::move(std::get<ProfileSet>(outcome));
}

}  // namespace

TEST_CASE("without profiles of users the built-in ones are all there are") {
  const FakeHost host({});
  const ProfileSet set = read(host);
  CHECK(set.own == 0);
  CHECK(set.profiles.data() == builtin_profiles().data());
  CHECK(document(set, "dstack").starts_with("# dstack"));
  CHECK(document(set, "dstak").empty());
}

TEST_CASE("users' profiles come first and replace built-in ones by name") {
  FakeHost host({"INVENTED_RANK=1", "INVENTED_SIZE=2", "DSTACK_NODE_RANK=0", "DSTACK_NODES_NUM=3",
                 "DSTACK_MASTER_NODE_IP=10.0.0.1"});
  host.files["/etc/rankshim.d/invented.toml"] = invented;
  host.files["/etc/rankshim.d/dstack.toml"] = "title = \"x\"\nopt_in = true\n[facts]\nnnodes = \"1\"\n";
  host.files["/etc/rankshim.d/notes.txt"] = "not a profile";
  host.files["/etc/rankshim.d/ours.launcher.toml"] = "not a profile";
  const ProfileSet set = read(host);
  CHECK(set.own == 2);
  CHECK(set.profiles.size() == builtin_profiles().size() + 1);
  CHECK(document(set, "dstack").starts_with("title = \"x\""));
  const auto outcome = recognise(set.profiles, "auto", host, set.own);
  REQUIRE(std::holds_alternative<Platform>(outcome));
  CHECK(std::get<Platform>(outcome).id.name() == "invented");
}

TEST_CASE("--profile adds one file, and wins over the folder's of the same name") {
  FakeHost host({});
  host.files["/here/invented.toml"] = invented;
  host.files["/etc/rankshim.d/invented.toml"] = "not read";
  const ProfileSet set = read(host, "/here/invented.toml");
  CHECK(document(set, "invented") == invented);
}

TEST_CASE("every mistake in every profile is a fault that names its file and line") {
  FakeHost host({});
  host.files["/etc/rankshim.d/a.toml"] = "title = 1\n";
  host.files["/etc/rankshim.d/b.toml"] =
      "title = \"b\"\n[[match]]\nall = [\"A\"]\n[facts]\nnnodes = \"${A\"\n";
  const auto outcome = read_profiles("/nowhere.toml", host);
  REQUIRE(std::holds_alternative<Faults>(outcome));
  std::string all;
  for (const Fault& fault : std::get<Faults>(outcome)) all += to_line(fault) + "\n";
  CHECK(all.find("/nowhere.toml: cannot be read") != std::string::npos);
  CHECK(all.find("/etc/rankshim.d/a.toml:1: 'title' is not a string") != std::string::npos);
  CHECK(all.find("/etc/rankshim.d/b.toml:5: nnodes: ") != std::string::npos);
  CHECK(check_profile("/etc/rankshim.d/b.toml", host).size() == 1);
}

TEST_CASE("a check finds a profile that supersedes none that there is") {
  FakeHost host({});
  const auto check = [&](const std::string& supersedes) {
    host.files["/etc/rankshim.d/a.toml"] =
        "title = \"a\"\nsigns = [\"A\"]\nsupersedes = [" + supersedes + "]\n[facts]\nnnodes = \"${A}\"\n";
    return check_profile("/etc/rankshim.d/a.toml", host);
  };
  host.files["/etc/rankshim.d/invented.toml"] = invented;
  CHECK(check("\"volcano\", \"kubeflow-*\", \"invented\"").empty());
  const Faults faults = check("\"volcano\", \"kubeflow-pytorchjobb\"");
  REQUIRE(faults.size() == 1);
  CHECK(to_line(faults[0]) ==
        "/etc/rankshim.d/a.toml: no profile fits 'kubeflow-pytorchjobb' in 'supersedes', the nearest is "
        "kubeflow-pytorchjob; write a name that `rankshim platforms` lists, or leave it out [R5]");
}
