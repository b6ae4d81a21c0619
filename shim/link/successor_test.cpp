#include <boost/asio/detached.hpp>

#include "link/test_job.h"
#include "link/test_roster.h"

/// A job of three nodes that train and two spares, whose hub is lost.

namespace rankshim::link {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using test::stopped;
using test::Story;

Hello member(unsigned index) {
  Hello hello = test::hello_of(index, 5);
  hello.spares = 2;
  hello.job_restarts = "3";
  hello.listen_port = 1000 + index;
  return hello;
}

/// The nodes' own knowledge over several attempts, each with a roster of its own.
struct SuccessionStory {
  std::map<unsigned, std::optional<KnownTerm>> known;
  std::map<unsigned, std::optional<unsigned>> rank;
  std::map<unsigned, Go> gos;
  std::map<unsigned, ConnectionId> connections;
  std::shared_ptr<Members> members;
  std::optional<Story> story;
  unsigned hub = 0;

  Story& now() { return *story; }
  unsigned train = 3;

  Hello hello(unsigned index) {
    Hello hello = member(index);
    hello.spares = 5 - train;
    hello.term = known[index];
    hello.holds = rank[index];
    return hello;
  }
  void meet(unsigned at, unsigned to_come = 0) {
    hub = at;
    connections = {{hub, myself}};
    members =
        std::make_shared<Members>(to_come == 0 ? Members(5, 5 - train) : Members::taken_over(5, 5 - train));
    if (const auto held = rank[hub]; held && to_come != 0)
      members->held(*held, hub, hello(hub).host, Time(900s));
    story.emplace(hello(hub), Roster::Rules{.decide = [](Stop& stop) { stop.again = !stop.drained(); },
                                            .members = members,
                                            .to_come = to_come,
                                            .old_hub = 0});
  }
  void come(const std::vector<unsigned>& indices) {
    for (const unsigned index : indices) now().arrive(connections[index] = 100 + index, hello(index));
  }
  void come_anew(unsigned index) {
    known[index].reset(), rank[index].reset();
    Hello fresh = hello(index);
    fresh.instance = "new-" + std::to_string(index);
    now().arrive(connections[index] = 200 + index, fresh);
  }
  /// What it was told in this attempt; null: nothing.
  const Go* go(unsigned index) { return gos.contains(index) ? &gos[index] : nullptr; }
  void hear(unsigned index, const Ballot& ballot) {
    known[index] = heard(known[index], ballot);
    known[index]->led = known[index]->led || ballot.term.hub == hello(index).instance;
  }
  /// All are counted that are connected, and all but `silent` hear that and answer.
  void count(const std::vector<unsigned>& silent = {}) {
    now().pass(0s);
    for (const auto& [index, connection] : connections) {
      const auto* told = now().told<Voters>(connection);
      if (told == nullptr || contains(silent, index)) continue;
      const Ballot ballot = told->ballot;
      hear(index, ballot);
      if (index != hub) now().say(connection, Heard{ballot.term.number});
    }
  }
  /// Whether it may be launched once all that are here were counted.
  bool can_launch() { return count(), now().ready(); }
  /// All that are told to launch hear it; `answer` says so.
  void launch(const std::vector<unsigned>& answer) {
    REQUIRE(can_launch());
    now().roster.launch(now().now);
    now().collect();
    gos.clear();
    for (const auto& [index, connection] : connections) {
      const Go* told = now().told<Go>(connection);
      if (told == nullptr) continue;
      const Go& copy = gos[index] = *told;
      hear(index, copy.lead->ballot);
      rank[index] = copy.rank;
    }
    for (const unsigned index : answer) now().say(100 + index, Heard{known[index]->last.number});
  }
  void begin() { meet(0), come({1, 2, 3, 4}), launch({1, 2, 3, 4}); }
};

TEST_CASE("a go says who takes over from the hub, who trains first, and how many vote", "[link]") {
  SuccessionStory job;
  job.begin();
  const auto& lead = *job.go(4)->lead;
  CHECK(lead.ballot.term.voters == 5);
  CHECK(lead.ballot.votes);
  CHECK(lead.master.empty());
  CHECK(lead.hub_rank == 0U);
  REQUIRE(lead.candidates.size() == 5);
  for (unsigned index = 1; index < 5; ++index) {
    CHECK(lead.candidates[index].index == index);
    CHECK(lead.candidates[index].port == 1000 + index);
    CHECK(lead.candidates[index].address == "10.0.0." + std::to_string(100 + index));
  }
}

TEST_CASE("the next hub keeps all ranks, and a spare has that of the hub that is lost", "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(1, 4);
  job.come({3, 4});
  CHECK_FALSE(job.can_launch());  // as many are here as train, but node 2 has a rank, and may still come
  job.come({2});
  job.launch({2, 3, 4});
  CHECK(job.go(1)->rank == 1U);
  CHECK(job.go(2)->rank == 2U);
  CHECK(job.go(3)->rank == 0U);
  CHECK(job.go(2)->lead->master == "10.0.0.103");
  CHECK(job.go(2)->lead->ballot.term.number == 2);
  CHECK(job.go(2)->lead->candidates.front().index == 1);
}

TEST_CASE("after 10 s the next hub does without who has not come", "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(1, 4);
  job.come({3, 4});
  job.now().pass(10s);
  CHECK(job.can_launch());
}

TEST_CASE("without more than half of the voters a hub never launches, and says so", "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(3, 4);
  job.come({4});
  job.come_anew(1), job.come_anew(2);
  job.now().roster.give_up_at(job.now().now + 120s);
  job.now().pass(60s);
  CHECK_FALSE(job.can_launch());
  CHECK(job.now().waiting().find("2 of the 5 nodes of the last attempt") != std::string::npos);
  job.now().pass(70s);
  REQUIRE(job.now().told<Refuse>(myself));
  CHECK(job.now().told<Refuse>(myself)->cause == Cause::unreachable);
}

TEST_CASE("exactly half of the voters are enough for the old hub alone", "[link]") {
  const bool is_old = GENERATE(true, false);
  SuccessionStory job;
  job.meet(0), job.come({1, 2, 3});
  job.now().pass(10s);
  job.launch({1, 2, 3});
  job.meet(is_old ? 0 : 2, is_old ? 0 : 3);
  job.come({is_old ? 1U : 3U});
  job.come_anew(4);
  job.now().pass(20s);
  CHECK(job.can_launch() == is_old);
}

TEST_CASE("half of the voters and a new container in the old hub's place are enough", "[link]") {
  SuccessionStory job;
  job.meet(0), job.come({1, 2, 3});
  job.now().pass(10s);
  job.launch({1, 2, 3});
  job.meet(2, 3);
  job.come({3});
  job.come_anew(0);
  job.now().pass(20s);
  CHECK(job.can_launch());
}

TEST_CASE("a hub that is alone with those that train stops them when the spares may outvote it", "[link]") {
  const bool is_silent = GENERATE(true, false);
  SuccessionStory two;
  two.train = 2;
  two.begin();
  for (const unsigned index : {2U, 3U, 4U})
    two.now().leave(100 + index, {.ended_by = is_silent ? EndedBy::nothing : EndedBy::rst});
  two.now().pass(60s);
  CHECK((two.now().told<Stop>(101) != nullptr) == is_silent);
}

TEST_CASE("spares that come and go while all run are counted again", "[link]") {
  SuccessionStory job;
  job.begin();
  for (const unsigned index : {3U, 4U}) {
    job.now().leave(100 + index, {.ended_by = EndedBy::rst});
    job.come_anew(index);
    CHECK_FALSE(job.now().told<Go>(200 + index)->lead->ballot.votes);
    job.now().pass(0s);
    const auto* voters = job.now().told<Voters>(200 + index);
    REQUIRE(voters);
    CHECK(voters->ballot.votes);
    CHECK(voters->ballot.before.has_value());
    const unsigned number = voters->ballot.term.number;
    for (const unsigned other : {1U, 2U}) job.now().say(100 + other, Heard{number});
    job.now().say(200 + index, Heard{number});
    job.now().pass(0s);
    CHECK_FALSE(job.now().told<Voters>(101)->ballot.before.has_value());  // a quorum of both has heard it
  }
  CHECK(job.now().told<Voters>(101)->ballot.term.voters == 5);
}

TEST_CASE("a new container of the hub refuses who knows more, and yields to another hub", "[link]") {
  SuccessionStory job;
  job.begin();
  Story fresh(member(0), {.members = std::make_shared<Members>(5, 2)});
  fresh.arrive(101, job.hello(1));
  CHECK(fresh.told<Stranger>(101));
  Hello newcomer = member(4);
  fresh.arrive(204, newcomer);
  Hello other_hub = job.hello(1);
  other_hub.leads = true;
  fresh.arrive(301, other_hub);
  const auto* moved = fresh.told<Moved>(204);
  REQUIRE(moved);
  CHECK(moved->hub.index == 1);
  CHECK(moved->hub.port == 1001);
  CHECK(fresh.told<Moved>(myself));
}

TEST_CASE("a hub that only asks is not counted", "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(1, 4);
  Hello asking = job.hello(2);
  asking.leads = true;
  job.now().arrive(302, asking);
  CHECK(job.now().closed[302]);
  CHECK(job.now().roster.nodes()[2].state == Node::State::missing);
}

TEST_CASE("a drained hub is replaced as long as the others have the votes", "[link]") {
  SuccessionStory job;
  job.begin();
  job.now().say(myself, stopped);
  REQUIRE(job.now().told<Stop>(101));
  CHECK(job.now().told<Stop>(101)->again);
  job.now().say(101, stopped);
  CHECK(job.now().told<Stop>(102)->again);
  job.now().say(102, stopped);  // there are two spares
  CHECK_FALSE(job.now().told<Stop>(103)->again);
}

TEST_CASE("all that are here must have heard the count before they launch", "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(1, 4), job.come({2, 3, 4});
  job.count({4});
  CHECK_FALSE(job.now().ready());  // it may count for another hub by now
  CHECK(job.now().waiting().find("no answer yet from node 4") != std::string::npos);
  SECTION("it answers") { job.now().say(104, Heard{2}); }
  SECTION("its connection ends") { job.now().leave(104), job.now().pass(10s); }
  SECTION("it comes again, and hears it then") { job.now().leave(104), job.come({4}), job.count(); }
  CHECK(job.now().ready());
}

TEST_CASE("while a node has not answered a count, nobody is told of a pause", "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(0), job.come({1, 2, 3, 4});
  job.count({4});
  CHECK(job.now().waiting() == "no answer yet from node 4 (host-4, 10.0.0.104)");
  CHECK_FALSE(job.now().ready());
  job.now().say(104, Heard{1});  // to an older one
  CHECK_FALSE(job.now().ready());
  job.now().say(104, Heard{2});
  CHECK(job.now().ready());
  job.now().leave(104), job.come({4});  // it may not have heard it
  CHECK_FALSE(job.now().ready());
}

TEST_CASE("a node that has answered a count and is gone has no vote, nor has a new container of it",
          "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(1, 4), job.come({2, 3});
  job.now().pass(10s);
  job.count();
  REQUIRE(job.now().ready());
  job.now().leave(102), job.now().leave(103);
  job.come_anew(0), job.come_anew(4);
  job.now().pass(10s);
  CHECK_FALSE(job.can_launch());
  job.come_anew(3);
  CHECK_FALSE(job.now().told<Voters>(203)->ballot.votes);
}

TEST_CASE("while all run, who is about to come back still votes, and who is lost does not", "[link]") {
  SuccessionStory job;
  job.begin();
  job.now().leave(101);
  job.now().leave(103), job.come_anew(3);
  job.now().pass(0s);
  REQUIRE(job.now().told<Voters>(203));
  CHECK(job.now().told<Voters>(203)->ballot.term.voters == 5);
}

TEST_CASE("a lost spare no longer counts", "[link]") {
  SuccessionStory job;
  job.begin();
  job.now().leave(103);
  job.now().pass(11s);
  REQUIRE(job.now().told<Voters>(101));
  CHECK(job.now().told<Voters>(101)->ballot.term.voters == 4);
}

TEST_CASE("only a voter of the term before that has heard that one is kept", "[link]") {
  SuccessionStory job;
  job.meet(0), job.come({1, 2, 3, 4}), job.launch({1, 2, 3});
  job.now().leave(103), job.come_anew(3);
  job.now().say(203, Heard{1});
  job.now().pass(0s);
  REQUIRE(job.now().told<Voters>(203));
  CHECK(job.now().told<Voters>(203)->ballot.kept == std::vector<outcome::RankRange>{{0, 2}});
}

TEST_CASE("one count is settled before the next begins, and none begins while the job ends", "[link]") {
  SuccessionStory job;
  job.begin();
  const bool is_ending = GENERATE(false, true);
  if (is_ending) job.now().say(101, Done{.code = 0});
  job.now().leave(103), job.come_anew(3), job.now().pass(0s);
  if (is_ending) {
    CHECK_FALSE(job.now().told<Voters>(203));
  } else {
    job.now().leave(104), job.come_anew(4), job.now().pass(0s);
    CHECK(job.now().told<Voters>(101)->ballot.term.number == 2);
    for (const ConnectionId other : {101U, 102U, 203U}) job.now().say(other, Heard{2});
    job.now().pass(0s);
    CHECK(job.now().told<Voters>(101)->ballot.term.number == 3);
  }
}

TEST_CASE("drained nodes do not vote on what follows", "[link]") {
  SuccessionStory two;
  two.train = 2;
  two.begin();
  two.now().say(myself, stopped), two.now().say(101, stopped);
  CHECK(two.now().told<Stop>(103)->again);
  two.now().say(102, stopped);  // two spares are left for two ranks, and two of five voters
  CHECK_FALSE(two.now().told<Stop>(103)->again);
}

TEST_CASE("a hub that is drained as its only spare comes settles the count in which that one votes",
          "[link]") {
  const bool is_counted = GENERATE(false, true);
  SuccessionStory two;
  two.train = 2;
  two.meet(0), two.come({1});
  two.now().pass(10s);
  two.launch({1});
  two.come({2});
  if (is_counted) two.now().pass(0s);
  two.now().say(myself, stopped);
  REQUIRE(two.now().told<Stop>(101));
  CHECK(two.now().told<Stop>(101)->again);
  two.now().say(102, Heard{2});
  two.now().pass(0s);
  const auto* voters = two.now().told<Voters>(101);
  REQUIRE(voters);
  CHECK(voters->ballot.term.voters == 3);
  CHECK_FALSE(voters->ballot.before);  // so two of the three may go on
}

TEST_CASE("a node that does not answer a count has no vote in it", "[link]") {
  SuccessionStory job;
  job.begin();
  job.meet(1, 4), job.come({2, 3});
  job.now().pass(10s);
  job.count({3});
  job.now().leave(103);
  job.now().pass(60s);
  CHECK_FALSE(job.now().ready());
  const std::string line = job.now().waiting();
  CHECK(line.find("2 of the 5 nodes of the last attempt are here") != std::string::npos);
}

TEST_CASE("the next hub completes the count of one that is lost meanwhile", "[link]") {
  const bool is_new = GENERATE(false, true);
  SuccessionStory job;
  job.begin();
  job.meet(0), job.come({1, 2, 3, 4});
  job.count({2, 3, 4});
  CHECK(job.known[1]->before);
  job.meet(1, 4);
  job.come({2});
  if (is_new) {  // nobody can know of these whether they were counted
    job.come_anew(3), job.come_anew(4);
  } else {
    job.come({3, 4});
    const auto* told = job.now().told<Voters>(103);
    REQUIRE(told);
    CHECK(told->ballot.term == job.known[1]->last);
    CHECK(told->ballot.votes);
  }
  job.count();
  CHECK(job.can_launch() != is_new);
}

/// A member by itself, which is told what the test says.
struct ToldMember : Link {
  ToldMember(asio::io_context& io, Options options) : Link(io, std::move(options)) {}
  using Link::handle;
  void send(const Message& /*message*/) override {}
  asio::awaitable<void> hold_meeting(Time /*deadline*/) override { co_return; }
  asio::awaitable<void> wait_for_end(bool /*well*/) override { co_return; }
};

TEST_CASE("a hub that has ended stands only for the term that it began", "[link]") {
  const Ballot first{.term = {.number = 1, .hub = "old", .voters = 3}, .votes = true};
  const Ballot next{.term = {.number = 2, .hub = "new", .voters = 3}, .before = first.term, .votes = true};
  asio::io_context io{1};
  const auto known = std::make_shared<Succession>(io);
  const auto told = std::make_shared<ToldMember>(io, Options{.self = member(1), .succession = known});
  told->handle(Voters{first, {}});
  known->hub_has_ended = true;
  SECTION("it is told of that term again") {
    told->handle(Voters{first, {}});
    CHECK(known->hub_has_ended);
  }
  SECTION("another hub has begun the next one") {
    told->handle(Voters{next, {}});
    CHECK_FALSE(known->hub_has_ended);
    told->handle(Voters{first, {}});
    CHECK(known->term->last.number == 2);  // the older one comes too late
    CHECK_FALSE(known->term->led);
  }
  SECTION("this node has begun it") {
    told->handle(Voters{{.term = {.number = 2, .hub = member(1).instance, .voters = 3}, .votes = true}, {}});
    CHECK(known->term->led);
  }
}

/// Five nodes on one event loop.
struct LinkedJob : test::TestJob {
  LinkedJob() : TestJob(5) {
    for (unsigned index = 0; index < 5; ++index) {
      Options& its = options[index];
      its.self.spares = 2;
      its.self.job_restarts = "3";
      its.rules.decide = [](Stop& stop) { stop.again = true; };
      its.succession = std::make_shared<Succession>(io);
      its.timing.other_hub = 100ms;
      its.second_port = 0;
    }
    options[0].rules.members = std::make_shared<Members>(5, 2);
  }
  /// As run/whole_job.cpp does: it may become the hub, or follow another one.
  asio::awaitable<void> meet_again(unsigned index) {
    Options& its = options[index];
    while (true) {
      Succession& known = *its.succession;
      its.rules.members = nullptr;
      if (known.is_led_by(index)) {
        its.rules.members = std::make_shared<Members>(Members::taken_over(5, 2));
        its.rules.members->held(*known.rank, index, its.self.host, known.launched);
        its.rules.to_come = known.to_come();
        led_by = index;
      }
      its.self.restarts = 1;
      links[index] = Link::make(io, its);
      const MeetingResult result = co_await links[index]->meet(now() + 100s);
      const auto* moved = std::get_if<Moved>(&result);
      if (moved == nullptr) co_return void(met[index] = result);
      known.leader = moved->hub;
    }
  }
  /// The node's process ends: its connections and its listener are closed.
  void end_abruptly(unsigned index) {
    links[index].reset();
    options[index].succession.reset();
  }
  /// All of these learn that the hub is lost, and are launched again.
  void all_meet_again(const std::vector<unsigned>& left) {
    for (const unsigned index : left) {
      REQUIRE(told(index));
      CHECK(stops[index]->lost());
      met[index].reset();
    }
    for (const unsigned index : left) asio::co_spawn(io, meet_again(index), asio::detached);
    REQUIRE(run_until(
        [&] { return std::ranges::all_of(left, [&](unsigned index) { return met[index].has_value(); }); }));
    for (const unsigned index : left) {
      stops[index].reset();
      links[index]->on_stop([this, index](const Stop& stop) { stops[index] = stop; });
    }
  }
  std::optional<unsigned> rank(unsigned index) { return std::get<Go>(*met[index]).rank; }

  unsigned led_by = 0;
};

TEST_CASE("a hub that closed its connections and its port is lost at once, for a spare too", "[link]") {
  LinkedJob job;
  for (Options& options : job.options) options.rules.relink = options.rules.ended = 1000s;
  job.all_launch();
  job.end_abruptly(0);
  for (const unsigned index : {1U, 4U}) {
    REQUIRE(job.told(index));
    CHECK(
        in_words(*job.stops[index])
            .starts_with("node 0 (host-0) was lost: its connection ended, and it could not be made again: "));
  }
}

TEST_CASE("a node that closed its connection and its listener is lost at once", "[link]") {
  LinkedJob job;
  for (Options& options : job.options) options.rules.relink = options.rules.ended = 1000s;
  job.all_launch();
  job.links[2].reset();
  job.options[2].succession->listener.close();
  REQUIRE(job.told(0));
  CHECK(in_words(job.stops[0]->culprit) ==
        "node 2 (host-2) was lost: its connection ended, and its rankshim no longer listens");
}

TEST_CASE("a hub that closed its connections and still listens is waited for", "[link]") {
  LinkedJob job;
  for (Options& options : job.options) options.rules.relink = options.rules.ended = 1000s;
  job.all_launch();
  job.links[0].reset();  // its rankshim may be about to answer at the port
  job.io.run_for(300ms);
  CHECK_FALSE(job.stops[4]);
}

TEST_CASE("when the hub is gone its first successor that lives leads the others", "[link]") {
  const bool is_first_gone = GENERATE(false, true);
  LinkedJob job;
  job.all_launch();
  job.end_abruptly(0);
  if (is_first_gone) job.end_abruptly(1);
  const std::vector<unsigned> left = is_first_gone ? std::vector{2U, 3U, 4U} : std::vector{1U, 2U, 3U, 4U};
  job.all_meet_again(left);
  CHECK(job.led_by == left.front());
  CHECK(job.rank(2) == 2U);
  CHECK(job.rank(3) == 0U);
  CHECK(job.rank(is_first_gone ? 4 : 1) == 1U);
}

TEST_CASE("while all run nobody looks for the hub at the master's port, which is torch's", "[link]") {
  LinkedJob job;
  for (Options& options : job.options) options.addresses = {"127.0.0.1"};
  job.all_launch();
  job.end_abruptly(0);
  job.all_meet_again({1, 2, 3, 4});
  bool is_asked = false;
  tcp::acceptor store(job.io);
  REQUIRE_FALSE(open_listener(store, job.port.number(), 16));
  store.async_accept([&](boost::system::error_code error, const tcp::socket&) { is_asked = !error; });
  job.end_abruptly(1);
  for (const unsigned index : {2U, 3U, 4U}) REQUIRE(job.told(index));
  CHECK_FALSE(is_asked);
}

}  // namespace
}  // namespace rankshim::link
