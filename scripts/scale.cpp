/// The whole job's link with many nodes on this machine: node 0's hub in one process, all other nodes' peers
/// in another, over loopback. scripts/scale builds it and runs it.
///
///     link_scale NODES [LATE]     LATE: milliseconds that the hub starts after the peers
///
/// A node and then the hub are killed, of a job of so many nodes besides its spares:
///
///     link_scale --losses NODES SPARES
///
/// A look at the workers of all nodes, eight on each, of which one hangs:
///
///     link_scale --look NODES
///
/// And what many nodes ask a name server while they wait, by the schedule of rankshim, without any server:
///
///     link_scale --questions NODES

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "link/connection.h"
#include "link/link.h"
#include "link/test_options.h"
#include "loop/loop.h"
#include "outcome/hang.h"
#include "supervise/kernel.h"
#include "wait/questions_for_test.h"

namespace {

using namespace rankshim;
using namespace rankshim::link;
namespace asio = boost::asio;

constexpr std::uint16_t port = 29511;
constexpr std::chrono::minutes longest{2};

/// The memory that only that process has, without the program's own pages.
long private_memory(const std::string& pid = "self") {
  std::ifstream file("/proc/" + pid + "/statm");
  long all = 0, resident = 0, shared = 0;
  file >> all >> resident >> shared;
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

Options options_of(unsigned rank, unsigned nodes, unsigned restarts = 0) {
  Options options = test::options_of(rank, nodes, port, "a-job-with-a-usual-name-worker-");
  options.self.restarts = restarts;
  options.self.pod = options.self.host;
  options.self.platform_node = "ip-10-0-12-" + std::to_string(rank) + ".eu-central-1.compute.internal";
  options.addresses = {"127.0.0.1"};
  options.self.job_restarts = "1";
  options.rules.decide = [](Stop& stop) { stop.again = true; };
  return options;
}

/// The hub, until it is killed: all start again once. Its memory is printed when all are there.
int run_hub(unsigned nodes, std::chrono::milliseconds late) {
  std::this_thread::sleep_for(late);
  asio::io_context io(1);
  auto hub = Link::make(io, options_of(0, nodes));
  const long before = private_memory();
  bool over = false;
  asio::co_spawn(io, hub->meet(now() + longest),
                 [&](const std::exception_ptr& thrown, const MeetingResult& met) {
                   if (thrown || !std::holds_alternative<Go>(met)) std::_Exit(1);
                   std::printf("| link of %u nodes: memory of node 0 | %ld kB |\n", nodes,
                               (private_memory() - before) / 1024);
                   std::fflush(stdout);
                   hub->on_stop([&](const Stop&) {
                     asio::co_spawn(io, hub->finish({.code = 143}), [&](const std::exception_ptr&) {
                       hub.reset();
                       hub = Link::make(io, options_of(0, nodes, 1));
                       asio::co_spawn(io, hub->meet(now() + longest),
                                      [](const std::exception_ptr&, const MeetingResult&) {});
                     });
                   });
                 });
  loop::run_until(io, over);
  return 0;
}

constexpr unsigned workers = 8;

/// A worker of a training in which rank 17 alone has not entered the collective.
outcome::WorkerLook look_of(unsigned rank, unsigned world) {
  const bool hangs = rank == 17;
  outcome::WorkerLook look{
      .rank = rank, .pid = 100 + rank % workers, .state = 'S', .kernel = "futex_do_wait"};
  for (unsigned call = 0; call < 10; ++call)
    look.stack.push_back({"/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py",
                          2800 + call, "all_reduce"});
  look.stack.push_back({"/workspace/train.py", hangs ? 26U : 37U, "train_epoch"});
  for (const unsigned size : {world, 8U, 64U, 512U})
    look.groups.push_back({.name = fmt::format("{}-{}", size, rank / size),
                           .description = "default_pg",
                           .members = {{rank / size * size, rank / size * size + size - 1}},
                           .entered = size == world && !hangs ? 4711U : 4710U,
                           .ended = 4710,
                           .operation = "all_reduce"});
  return look;
}

asio::awaitable<Observation> see(unsigned node, unsigned nodes) {
  Observation observation;
  for (unsigned local_rank = 0; local_rank < workers; ++local_rank) {
    observation.workers.push_back({.local_rank = local_rank, .entered = 4711, .ended = 4710});
    observation.looks[local_rank] = look_of(node * workers + local_rank, nodes * workers);
  }
  co_return observation;
}

std::shared_ptr<Link> make_watched(asio::io_context& io, unsigned rank, unsigned nodes) {
  Options options = options_of(rank, nodes);
  options.self.workers = workers;
  options.timing.look = std::chrono::seconds(30);
  auto link = Link::make(io, options);
  link->on_look([rank, nodes](bool /*full*/) { return see(rank, nodes); });
  return link;
}

double milliseconds_since(Time begin);

asio::awaitable<void> look_at_all(std::shared_ptr<Link> hub, unsigned nodes) {
  const auto met = co_await hub->meet(now() + longest);
  if (!std::holds_alternative<Go>(met)) std::_Exit(1);
  const long before = private_memory();
  const Time begin = now();
  co_await hub->look({.full = true});
  const double looked = milliseconds_since(begin);
  const std::vector<outcome::WorkerLook> looks = hub->take_looks();
  const long memory = private_memory() - before;
  const Time begin_judging = now();
  const auto culprit = outcome::find_hang(looks);
  std::printf("| look at %u nodes of %u workers: all answers at node 0 | %.0f ms |\n", nodes, workers,
              looked);
  std::printf("| look at %u nodes of %u workers: who hangs | %.0f ms |\n", nodes, workers,
              milliseconds_since(begin_judging));
  std::printf("| look at %u nodes of %u workers: memory of node 0 for it | %ld kB |\n", nodes, workers,
              memory / 1024);
  std::fflush(stdout);
  const bool good = looks.size() == std::size_t{nodes} * workers && culprit && culprit->rank == 17U;
  std::_Exit(good ? 0 : 1);
}

/// Node 0, or all others.
int run_looks(unsigned nodes, bool is_hub) {
  asio::io_context io(1);
  std::vector<std::shared_ptr<Link>> links;
  for (unsigned rank = is_hub ? 0 : 1; rank < (is_hub ? 1 : nodes); ++rank) {
    links.push_back(make_watched(io, rank, nodes));
    if (is_hub)
      loop::spawn(io, look_at_all(links.back(), nodes));
    else
      asio::co_spawn(io, links.back()->meet(now() + longest),
                     [](const std::exception_ptr&, const MeetingResult&) {});
  }
  bool over = false;
  loop::run_until(io, over);
  return 1;
}

double milliseconds_since(Time begin) {
  return std::chrono::duration<double, std::milli>(now() - begin).count();
}

/// All peers but the last; that one is a bare socket, and comes when all others are there.
int run_peers(unsigned nodes, bool is_late) {
  const unsigned last_rank = nodes - 1;
  asio::io_context io(1);
  std::vector<std::shared_ptr<Link>> peers;
  unsigned launched = 0, told = 0, failed = 0;
  const auto meet = [&](unsigned rank, unsigned restarts) {
    peers[rank] = Link::make(io, options_of(rank, nodes, restarts));
    asio::co_spawn(io, peers[rank]->meet(now() + longest),
                   [&](const std::exception_ptr& thrown, const MeetingResult& met) {
                     !thrown&& std::holds_alternative<Go>(met) ? ++launched : ++failed;
                   });
  };
  peers.resize(nodes);
  for (unsigned rank = 1; rank < last_rank; ++rank) meet(rank, 0);
  bool late = false;
  loop::Timer limit(io.get_executor(), now() + longest);
  limit.async_wait([&](boost::system::error_code error) { late = !error; });
  const auto run = [&](const std::function<bool()>& holds) {
    while (!holds() && !late && failed == 0) io.run_one();
    if (late || failed > 0) {
      std::printf("| link of %u nodes | %u launched, %u failed |\n", nodes, launched, failed);
      std::fflush(stdout);
      std::_Exit(1);
    }
  };
  // The last node: its hello shows whether all others are there, for then "go" is the answer.
  loop::Timer settle(io.get_executor());
  bool settled = false;
  // Time for all others to arrive, however slow this machine is; what is measured begins after it.
  settle.expires_after(std::chrono::milliseconds(nodes * 2 + (is_late ? 5000 : 1000)));
  settle.async_wait([&](boost::system::error_code) { settled = true; });
  run([&] { return settled; });
  const Time arrival = now();
  tcp::socket socket(io);
  socket.connect({asio::ip::address_v4::loopback(), port});
  Hello last = options_of(last_rank, nodes).self;
  last.instance = "the last", last.port = port, last.address = "127.0.0.1";
  const std::string hello = std::string(greeting) + to_text(last) + '\n';
  asio::write(socket, asio::buffer(hello));
  run([&] { return launched == nodes - 2; });
  std::string answer;
  asio::read_until(socket, asio::dynamic_buffer(answer), "\ngo ");
  std::printf("| link of %u nodes: from the last arrival to the last launch | %.1f ms |\n", nodes,
              milliseconds_since(arrival));
  for (unsigned rank = 1; rank < last_rank; ++rank) peers[rank]->on_stop([&](const Stop&) { ++told; });
  const std::string fail = to_text(Culprit{.rank = 7,
                                           .cause = rankshim::outcome::Cause::signalled,
                                           .code = 137,
                                           .text = "was killed by SIGKILL"}) +
                           '\n';
  const Time failure = now();
  asio::write(socket, asio::buffer(fail));
  run([&] { return told == nodes - 2; });
  std::printf("| link of %u nodes: from a failure to the last node that knows | %.1f ms |\n", nodes,
              milliseconds_since(failure));
  // The commands end at once, and all meet again, with the one that failed.
  const Time again = now();
  launched = 0;
  for (unsigned rank = 1; rank < last_rank; ++rank)
    asio::co_spawn(io, peers[rank]->finish({.code = 143}),
                   [&, rank](const std::exception_ptr&) { meet(rank, 1); });
  asio::write(socket, asio::buffer(to_text(Done{137}) + '\n'));
  meet(last_rank, 1);
  run([&] { return launched == nodes - 1; });
  std::printf(
      "| link of %u nodes: from a failure that all know to the last launch of the next attempt | %.1f ms |\n",
      nodes, milliseconds_since(again));
  std::fflush(stdout);
  std::_Exit(0);  // without a farewell
}

// ---- losses ----

/// How many members have launched in an attempt, and how many know that it is over. All processes share it.
struct Attempt {
  std::atomic<unsigned> launched, told;
};
using Attempts = std::array<Attempt, 3>;

/// A member of a job with spares over all attempts, as run/whole_job.cpp leads it: it may become the hub. Its
/// command ends at once.
asio::awaitable<void> live(asio::io_context& io, unsigned index, unsigned nodes, unsigned spares,
                           Attempts& attempts) {
  Options options = options_of(index, nodes + spares);
  options.self.spares = spares;
  options.succession = std::make_shared<Succession>(io);
  Succession& known = *options.succession;
  if (index == 0) options.rules.members = std::make_shared<Members>(known.members_for(options.self));
  for (Attempt& attempt : attempts) {
    std::shared_ptr<Link> link;
    while (true) {
      link = Link::make(io, options);
      const MeetingResult met = co_await link->meet(now() + longest);
      if (std::holds_alternative<Go>(met)) break;
      const auto* moved = std::get_if<Moved>(&met);
      if (moved == nullptr) std::_Exit(1);
      known.leader = moved->hub;
      if (known.leader->index != index) continue;
      options.rules.members = std::make_shared<Members>(known.members_for(options.self));
      options.rules.to_come = known.to_come();
      options.rules.last_launch = known.launched;
    }
    ++attempt.launched;
    co_await link->stand_by();
    ++attempt.told;
    co_await link->finish({.code = 143});
    ++options.self.restarts;
  }
}

double processor_milliseconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  clock_getcpuclockid(pid, &clock);
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

/// The processes of a job: the hub, the next hub, the node that is lost, and the others, many in each
/// process.
class JobProcesses {
 public:
  JobProcesses(unsigned nodes, unsigned spares)
      : nodes_(nodes),
        spares_(spares),
        attempts_(*new (mmap(nullptr, sizeof(Attempts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                             -1, 0)) Attempts),
        name_(fmt::format("link of {} nodes and {} spares", nodes, spares)) {
    const unsigned all = nodes + spares, lost = nodes - 1;
    for (const unsigned index : {0U, 1U, lost}) start({index});
    std::vector<unsigned> members;
    for (unsigned index = 2; index < all; ++index) {
      if (index != lost) members.push_back(index);
      if (members.size() == most_in_process || index + 1 == all) start(std::exchange(members, {}));
    }
  }
  ~JobProcesses() {
    while (!processes_.empty()) end(processes_.front());
  }
  JobProcesses(const JobProcesses&) = delete;
  JobProcesses& operator=(const JobProcesses&) = delete;

  [[nodiscard]] pid_t hub() const { return processes_[0]; }
  [[nodiscard]] pid_t successor() const { return processes_[1]; }
  [[nodiscard]] pid_t lost() const { return processes_[2]; }

  /// Waits until all have launched for the first time.
  bool launch() {
    if (!wait_for(attempts_[0].launched, nodes_ + spares_)) return false;
    settle();
    return true;
  }

  /// Kills a process, and prints how long it takes until all others launch again, and on whose processor
  /// time: they share this machine.
  bool lose(pid_t pid, const char* what, pid_t next_hub) {
    Attempt &before = attempts_[attempt_], &after = attempts_[attempt_ + 1];
    const Time begin = now();
    end(pid);
    if (!wait_for(before.told, 1)) return false;
    const Time told = now();
    const double of_hub = processor_milliseconds(next_hub), of_all = processor_of_all();
    if (!wait_for(after.launched, nodes_ + spares_ - ++attempt_)) return false;
    const Time launched = now();
    const double hub = processor_milliseconds(next_hub) - of_hub, all = processor_of_all() - of_all;
    const auto print = [&](const char* figure, double milliseconds) {
      std::printf("| %s: %s %s | %.1f ms |\n", name_.c_str(), what, figure, milliseconds);
    };
    const auto between = [](Time from, Time to) {
      return std::chrono::duration<double, std::milli>(to - from).count();
    };
    print("ends: until the first node takes it for lost", between(begin, told));
    print("is lost: until the last launch", between(told, launched));
    print("is lost: processor time of the hub until then", hub);
    print("is lost: processor time of all other nodes until then", all - hub);
    std::fflush(stdout);
    settle();
    return true;
  }

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  static constexpr std::size_t most_in_process = 1000;  // each has its own listener and timers

  void start(const std::vector<unsigned>& members) {
    const pid_t pid = fork();
    if (pid != 0) return processes_.push_back(pid);
    asio::io_context io(1);
    for (const unsigned index : members) loop::spawn(io, live(io, index, nodes_, spares_, attempts_));
    bool over = false;
    loop::run_until(io, over);
    std::_Exit(1);
  }

  void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    std::erase(processes_, pid);
  }

  /// Until all have said what they still have to say, however slow this machine is.
  void settle() const { std::this_thread::sleep_for(std::chrono::milliseconds(1000 + nodes_ / 2)); }

  /// Returns false, after a message, if that takes too long.
  [[nodiscard]] bool wait_for(const std::atomic<unsigned>& count, unsigned least) const {
    for (const Time begin = now(); count < least;) {
      if (now() - begin > longest) {
        std::fprintf(stderr, "%s: %u of %u nodes after attempt %u\n", name_.c_str(), count.load(), least,
                     attempt_);
        return false;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  [[nodiscard]] double processor_of_all() const {
    double all = 0;
    for (const pid_t pid : processes_) all += processor_milliseconds(pid);
    return all;
  }

  const unsigned nodes_, spares_;
  Attempts& attempts_;
  const std::string name_;
  std::vector<pid_t> processes_;
  unsigned attempt_ = 0;
};

bool measure_losses(unsigned nodes, unsigned spares) {
  JobProcesses job(nodes, spares);
  const pid_t hub = job.hub(), successor = job.successor();
  if (!job.launch() || !job.lose(job.lost(), "a node", hub)) return false;
  const long before = private_memory(std::to_string(successor));
  if (!job.lose(hub, "the hub", successor)) return false;
  std::printf("| %s: memory of the next hub | %ld kB |\n", job.name().c_str(),
              (private_memory(std::to_string(successor)) - before) / 1024);
  return true;
}

/// The nodes start at the same moment, and a name server answers at once. The name is short, the first of the
/// search list's four.
void print_questions(unsigned nodes) {
  const unsigned at_once = wait::test::simulate_questions(nodes, std::chrono::seconds(0)).most();
  std::printf(
      "| simulated questions in a second: %u nodes, a short name that exists already | at most %u |\n", nodes,
      at_once);
  const auto late = wait::test::simulate_questions(nodes, std::chrono::seconds(120));
  std::printf(
      "| simulated questions in a second: %u nodes, a short name that does not exist for 120 s "
      "| at most %u, on average %u in the first 30 s and %u in the last |\n"
      "| simulated time from the record to the look that finds it: %u nodes | median %.1f s, the last %.1f s "
      "|\n",
      nodes, late.most(), late.mean(0, 30), late.mean(90, 120), nodes, late.found[nodes / 2],
      late.found.back());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && argv[1] == std::string("--questions")) {
    print_questions(static_cast<unsigned>(std::atoi(argv[2])));
    return 0;
  }
  supervise::kernel::set_signal_mask(0, nullptr);  // block_early.cpp is a part of every program of ours
  const auto is_asked = [&](const char* option, int words) {
    return argc > words && argv[1] == std::string(option);
  };
  const auto number = [&](int at) { return static_cast<unsigned>(argc > at ? std::atoi(argv[at]) : 0); };
  const bool looks = is_asked("--look", 2);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  log::configure("error");
  if (is_asked("--losses", 3)) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return measure_losses(number(2), number(3)) ? 0 : 1;
  }
  const unsigned nodes = argc > 1 ? number(looks ? 2 : 1) : 16;
  const std::chrono::milliseconds late(looks ? 0 : number(2));
  const pid_t hub = fork();
  if (hub == 0) std::_Exit(looks ? run_looks(nodes, true) : run_hub(nodes, late));
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const pid_t peers = fork();
  if (peers == 0) std::_Exit(looks ? run_looks(nodes, false) : run_peers(nodes, late.count() > 0));
  const pid_t first = looks ? hub : peers, second = looks ? peers : hub;  // the first measures
  int bad = 0;
  waitpid(first, &bad, 0);
  kill(second, SIGKILL);
  waitpid(second, nullptr, 0);
  return bad == 0 ? 0 : 1;
}
