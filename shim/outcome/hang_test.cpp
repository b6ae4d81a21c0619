#include "outcome/hang.h"
#include "outcome/wording.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <map>
#include <utility>

namespace rankshim::outcome {
namespace {

const Frame all_reduce{"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2810,
                       "all_reduce"};
const Frame broadcast{"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 2520,
                      "broadcast"};
const Frame wrapper{"/venv/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", 81, "wrapper"};

const Frame barrier{broadcast.file, 5000, "barrier"};
const Frame send{broadcast.file, 2400, "send"};
const Frame recv{broadcast.file, 2440, "recv"};

Frame line(unsigned number, const std::string& function = "<module>") {
  return {"/app/train.py", number, function};
}

/// A rank in the group of all `world` ranks.
WorkerLook rank(unsigned rank, unsigned world, std::uint64_t entered, std::uint64_t ended,
                const std::vector<Frame>& stack, const std::string& operation = "all_reduce") {
  return {.rank = rank,
          .state = 'S',
          .stack = stack,
          .groups = {{.name = "0",
                      .description = "default_pg",
                      .members = {{0, world - 1}},
                      .entered = entered,
                      .ended = ended,
                      .operation = operation}}};
}
WorkerLook waiting(unsigned number, unsigned world = 3) {
  return rank(number, world, 21, 20, {all_reduce, wrapper, line(37)});
}
/// Its own part of the last broadcast has ended, and the one before has not.
WorkerLook in_optimizer(unsigned number, std::uint64_t ended = 23) {
  const std::string torch = "/venv/lib/python3.11/site-packages/torch/";
  WorkerLook look = rank(number, 3, 23, ended,
                         {{torch + "distributed/optim/zero_redundancy_optimizer.py", 826, "_sync_params"},
                          {torch + "distributed/optim/zero_redundancy_optimizer.py", 1151, "step"},
                          {torch + "optim/optimizer.py", 530, "wrapper"},
                          line(24)},
                         "broadcast");
  look.works = false;
  return look;
}
WorkerLook without_answer(WorkerLook look) {
  look.holds_gil = true;
  look.groups.clear();
  return look;
}
WorkerLook in_state(WorkerLook look, char state, std::string kernel = "") {
  look.state = state;
  look.kernel = std::move(kernel);
  return look;
}
/// In the two groups of a rank of a job of two by two.
WorkerLook in_grid(unsigned rank, std::pair<unsigned, unsigned> tp, std::pair<unsigned, unsigned> dp,
                   unsigned line_number) {
  const auto group = [](const std::string& name, RankRange a, RankRange b,
                        std::pair<unsigned, unsigned> numbers) {
    return GroupProgress{.name = name,
                         .description = name.substr(0, 2),
                         .members = {a, b},
                         .entered = numbers.first,
                         .ended = numbers.second,
                         .operation = numbers.first > numbers.second ? "all_reduce" : "broadcast"};
  };
  const unsigned row = rank / 2 * 2, column = rank % 2;
  return {.rank = rank,
          .state = 'S',
          .stack = {line(line_number, "step")},
          .groups = {group("tp" + std::to_string(row), {row, row}, {row + 1, row + 1}, tp),
                     group("dp" + std::to_string(column), {column, column}, {column + 2, column + 2}, dp)}};
}

/// In another collective of the first group than in_grid() has it.
WorkerLook in_other(WorkerLook look) {
  look.groups.front().operation = "all_gather";
  return look;
}
WorkerLook idle(WorkerLook look) {
  look.works = false;
  return look;
}
WorkerLook without_groups(WorkerLook look) {
  look.groups.clear();
  return look;
}

struct Case {
  std::string name;
  std::vector<WorkerLook> looks;
  std::vector<unsigned> ended;
  std::string sentence;  ///< empty: nobody hangs
  std::vector<unsigned> victims = {};
  std::map<unsigned, Place> places = {};  ///< of further victims
};

std::vector<Case> cases() {
  const Frame next{"/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 733, "__next__"};
  const Frame new_group{"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 5000,
                        "new_group"};
  const Frame init{"/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", 1700,
                   "init_process_group"};
  WorkerLook loads = rank(1, 3, 20, 20, {next, line(16, "load_batch"), line(35)});
  loads.below = "python3 (pid 81): S, hrtimer_nanosleep";
  WorkerLook validates = rank(0, 3, 20, 20, {line(20, "validate"), line(40)});
  validates.works = true;
  return {
      {"A: a rank sleeps",
       {waiting(0), rank(1, 3, 20, 20, {line(26)}), waiting(2)},
       {},
       "node 0 hung: rank 1 is in train.py:26; ranks 0 and 2 waited in all_reduce (train.py:37) until their "
       "timeout"},
      {"a rank that waited writes its exception down, of which only its numbers are known",
       {rank(0, 3, 21, 20,
             {{"/usr/lib/python3.11/json/encoder.py", 200, "encode"},
              {"/tmp/rankshim_x/sitecustomize.py", 300, "write_json"}}),
        rank(1, 3, 20, 20, {line(26)}), waiting(2)},
       {},
       "node 0 hung: rank 1 is in train.py:26; ranks 0 and 2 waited in all_reduce (train.py:37) until their "
       "timeout"},
      {"a process of multiprocessing's does, whose own command is not the user's",
       {rank(0, 3, 21, 20,
             {{"/usr/lib/python3.11/traceback.py", 184, "format_exc"},
              {"/venv/lib/python3.11/site-packages/torch/multiprocessing/spawn.py", 87, "_wrap"},
              {"/usr/lib/python3.11/multiprocessing/spawn.py", 122, "spawn_main"},
              {"<string>", 1, "<module>"}}),
        rank(1, 3, 20, 20, {line(26)}), waiting(2)},
       {},
       "node 0 hung: rank 1 is in train.py:26; ranks 0 and 2 waited in all_reduce (train.py:37) until their "
       "timeout"},
      {"two have not come where one has failed, which had entered more than they",
       {rank(0, 3, 21, 21, {line(300)}), rank(1, 3, 20, 20, {line(17, "wait_for_file")}),
        rank(2, 3, 20, 20, {line(17, "wait_for_file")})},
       {},
       "node 0 hung: ranks 1-2 are in wait_for_file (train.py:17); rank 0 waited in all_reduce until its "
       "timeout",
       {0}},
      {"B: a data loader hangs",
       {waiting(0), loads, waiting(2)},
       {},
       "node 0 hung: rank 1 is in load_batch (train.py:16), which called __next__, above python3 (pid 81): "
       "S, hrtimer_nanosleep; ranks 0 and 2 waited in all_reduce (train.py:37) until their timeout"},
      {"C: a rank is stopped",
       {waiting(0), in_state(without_answer(rank(1, 3, 0, 0, {line(27)})), 'T', "do_signal_stop"),
        waiting(2)},
       {},
       "node 0 hung: rank 1 is stopped by a signal or a debugger, in train.py:27; ranks 0 and 2 waited in "
       "all_reduce (train.py:37) until their timeout"},
      {"D: a rank is in another collective",
       {waiting(0), rank(1, 3, 21, 20, {broadcast, line(36)}, "broadcast"), waiting(2)},
       {},
       "node 0 hung: the ranks' collectives do not match (number 21 of default_pg): rank 1 is in broadcast "
       "(train.py:36), and ranks 0 and 2 in all_reduce (train.py:37)"},
      {"a rank is in an all_reduce that the others have ended, which were broadcasts in a sharded optimizer",
       {in_optimizer(0), rank(1, 3, 21, 20, {all_reduce, line(22)}), in_optimizer(2)},
       {},
       "node 0 hung: the ranks' collectives do not match (number 21 of default_pg): rank 1 is in all_reduce "
       "(train.py:22), and ranks 0 and 2 in step (train.py:24)"},
      {"the same where the source of the first broadcast waits in it, too",
       {in_optimizer(0, 20), rank(1, 3, 21, 20, {all_reduce, line(22)}), in_optimizer(2, 22)},
       {},
       "node 0 hung: the ranks' collectives do not match (number 21 of default_pg): rank 1 is in all_reduce "
       "(train.py:22), and ranks 0 and 2 in step (train.py:24)"},
      {"a rank is in a broadcast that the others have ended: the network may be stuck",
       {in_optimizer(0), rank(1, 3, 21, 20, {broadcast, line(22)}, "broadcast"), in_optimizer(2)},
       {},
       "the job hung: rank 1 waited in broadcast (train.py:22) (number 21 of default_pg), "
       "and no rank is missing: a GPU or the network is stuck"},
      {"D with two ranks: both",
       {waiting(0, 2), rank(1, 2, 21, 20, {broadcast, line(36)}, "broadcast")},
       {},
       "the job hung: the ranks' collectives do not match (number 21 of default_pg): ranks 0-1 are in "
       "broadcast (train.py:36) and in all_reduce (train.py:37)"},
      {"the same collective of two lines",
       {waiting(0), rank(1, 3, 21, 20, {all_reduce, line(52, "save")}), waiting(2)},
       {},
       "node 0 hung: the ranks' collectives do not match (number 21 of default_pg): rank 1 is in all_reduce "
       "(train.py:52), and ranks 0 and 2 in all_reduce (train.py:37)"},
      {"D2: a rank has exited 0",
       {waiting(0), waiting(2)},
       {1},
       "node 0 hung: rank 1 exited 0 before the others: it ran fewer iterations; ranks 0 and 2 "
       "waited in all_reduce (train.py:37) until their timeout"},
      {"E: a C call holds the GIL",
       {waiting(0), in_state(without_answer(rank(1, 3, 0, 0, {line(32)})), 'S', "anon_pipe_read"),
        waiting(2)},
       {},
       "node 0 hung: rank 1 is in train.py:32, in a C call that holds the GIL, in the kernel's "
       "anon_pipe_read; ranks 0 and 2 waited in all_reduce (train.py:37) until their timeout"},
      {"G: a rank validates",
       {validates, waiting(1), waiting(2)},
       {},
       "node 0 hung: rank 0 is in validate (train.py:20) and works; ranks 1-2 waited in all_reduce "
       "(train.py:37) until their timeout"},
      {"H: the store does not answer",
       {rank(0, 3, 20, 20, {new_group, line(11)}), rank(1, 3, 20, 20, {new_group, line(11)}),
        rank(2, 3, 20, 20, {new_group, line(11)})},
       {},
       "the job hung: ranks 0-2 waited in new_group (train.py:11), in no collective: torch's store on node 0 "
       "does not answer, or they do not make the same groups"},
      {"H, as another node sees it: of its own rank only",
       {rank(1, 3, 20, 20, {new_group, line(11)})},
       {},
       "the job hung: rank 1 waited in new_group (train.py:11) for ranks that this node cannot see"},
      {"of two ranks that receive, a node sees only its own",
       {rank(1, 2, 20, 20, {recv, line(19)})},
       {},
       "the job hung: rank 1 waited in recv (train.py:19) for ranks that this node cannot see"},
      {"one makes another group, and the others have exited 0",
       {rank(0, 3, 20, 20, {new_group, line(11)})},
       {1, 2},
       "node 0 hung: ranks 1-2 exited 0 before the others: they ran fewer iterations; rank 0 waited in "
       "new_group (train.py:11) until its timeout"},
      {"a rank in state D",
       {waiting(0), in_state(rank(1, 3, 20, 20, {line(27)}), 'D', "folio_wait_bit"), waiting(2)},
       {},
       "node 0 hung: rank 1 is in state D, in train.py:27, in the kernel's folio_wait_bit; ranks 0 and 2 "
       "waited in all_reduce (train.py:37) until their timeout"},
      {"two by two: rank 0 waits for 2, 1 for 3, 2 for 3",
       {in_grid(0, {15, 15}, {16, 15}, 9), in_grid(1, {15, 15}, {16, 15}, 9),
        in_grid(2, {16, 15}, {15, 15}, 8), in_grid(3, {15, 15}, {15, 15}, 7)},
       {},
       "node 0 hung: rank 3 is in step (train.py:7); ranks 0-2 waited in all_reduce (train.py:9) until their "
       "timeout"},
      {"a circle",
       {in_grid(0, {11, 10}, {10, 10}, 5), in_grid(1, {10, 10}, {11, 10}, 6),
        in_grid(3, {11, 10}, {10, 10}, 5), in_grid(2, {10, 10}, {11, 10}, 6)},
       {},
       "the job hung: ranks 0-3 waited for each other in a cycle, so the order of their collectives "
       "differs"},
      {"a circle, and all have timed out",
       {in_grid(0, {11, 11}, {10, 10}, 5), in_grid(1, {10, 10}, {11, 11}, 6),
        in_grid(3, {11, 11}, {10, 10}, 5), in_grid(2, {10, 10}, {11, 11}, 6)},
       {},
       "the job hung: ranks 0-3 waited for each other in a cycle, so the order of their collectives differs",
       {0, 1, 2, 3}},
      {"a circle, and one has timed out",
       {in_grid(0, {11, 11}, {10, 10}, 5), in_grid(1, {10, 10}, {11, 10}, 6),
        in_grid(3, {11, 10}, {10, 10}, 5), in_grid(2, {10, 10}, {11, 10}, 6)},
       {},
       "the job hung: ranks 0-3 waited for each other in a cycle, so the order of their collectives differs",
       {0}},
      {"two by two, and two have timed out: rank 0 waited for 1, and 1 for 3",
       {in_grid(0, {11, 11}, {10, 10}, 5), in_grid(1, {10, 10}, {11, 11}, 6),
        in_grid(2, {10, 10}, {10, 10}, 5), in_grid(3, {10, 10}, {10, 10}, 7)},
       {},
       "node 0 hung: rank 3 is in step (train.py:7); ranks 0-1 waited in broadcast until their timeout",
       {0, 1}},
      {"all have timed out, and tell of nobody whom they have waited for",
       {rank(0, 2, 20, 20, {line(3)}), rank(1, 2, 20, 20, {line(3)})},
       {},
       "",
       {0, 1}},
      {"all are inside",
       {waiting(0), waiting(1), waiting(2)},
       {},
       "the job hung: ranks 0-2 waited in all_reduce (train.py:37) (number 21 of default_pg), and no rank is "
       "missing: a GPU or the network is stuck"},
      {"NCCL: the program has entered further ones",
       {rank(0, 3, 30, 20, {line(50)}), rank(1, 3, 20, 20, {line(26)}), rank(2, 3, 28, 20, {line(49)})},
       {},
       "node 0 hung: rank 1 is in train.py:26; ranks 0 and 2 waited in train.py:50 until their timeout"},
      {"numbers, and nobody waits", {rank(0, 2, 20, 20, {line(3)}), rank(1, 2, 20, 20, {line(4)})}, {}, ""},
      {"no numbers, one of four elsewhere",
       {without_groups(waiting(0)), without_groups(waiting(1)), without_groups(rank(2, 4, 0, 0, {line(26)})),
        without_groups(waiting(3))},
       {},
       "node 0 hung: rank 2 is in train.py:26; ranks 0-1 and 3 waited in all_reduce (train.py:37) until "
       "their timeout"},
      {"no numbers, two of four elsewhere",
       {without_groups(waiting(0)), without_groups(waiting(1)), without_groups(rank(2, 4, 0, 0, {line(26)})),
        without_groups(rank(3, 4, 0, 0, {line(26)}))},
       {},
       "node 0 hung: ranks 2-3 are in train.py:26; ranks 0-1 waited in all_reduce (train.py:37) until their "
       "timeout"},
      {"an unknown rank is not to blame",
       {waiting(0, 8), waiting(1, 8)},
       {},
       "the job hung: ranks 0-1 waited in all_reduce (train.py:37) (number 21 of default_pg) for ranks that "
       "this node cannot see"},
      {"nobody", {}, {}, ""},
      {"numbers, and one that does not answer is at work",
       {waiting(0), without_answer(rank(1, 3, 0, 0, {line(32)})), waiting(2)},
       {},
       "node 0 hung: rank 1 is in train.py:32, in a C call that holds the GIL; ranks 0 and 2 waited in "
       "all_reduce (train.py:37) until their timeout"},
      {"a root has sent its part of a broadcast, and waits in the next collective",
       {rank(0, 3, 22, 21, {all_reduce, line(38)}), rank(1, 3, 20, 20, {line(26)}),
        rank(2, 3, 21, 20, {broadcast, line(37)}, "broadcast")},
       {},
       "node 0 hung: rank 1 is in train.py:26; ranks 0 and 2 waited in all_reduce (train.py:38) until their "
       "timeout"},
      {"two by two: the collectives of ranks 0 and 1 differ, and ranks 2 and 3 wait for them",
       {in_grid(0, {16, 15}, {15, 15}, 8), in_other(in_grid(1, {16, 15}, {15, 15}, 9)),
        in_grid(2, {15, 15}, {16, 15}, 7), in_grid(3, {15, 15}, {16, 15}, 7)},
       {},
       "the job hung: the ranks' collectives do not match (number 16 of tp): ranks 0-1 are in all_reduce "
       "(train.py:8) and in all_gather (train.py:9)"},
      {"one exited 0, another one has left the loop too",
       {waiting(0, 4), waiting(2, 4), rank(3, 4, 20, 20, {line(60, "save")})},
       {1},
       "node 0 hung: rank 1 exited 0 before the others: it ran fewer iterations; ranks 0 and 2 "
       "waited in all_reduce (train.py:37) until their timeout"},
      {"those that waited have ended, and one runs",
       {rank(1, 3, 20, 20, {line(26)})},
       {},
       "node 0 hung: rank 1 is in train.py:26; ranks 0 and 2 waited until their timeout",
       {0, 2}},
      {"of those that run one waits, and does not tell its numbers",
       {without_groups(waiting(1, 4)), rank(2, 4, 20, 20, {line(26)})},
       {},
       "node 0 hung: rank 2 is in train.py:26; ranks 0-1 and 3 waited in all_reduce (train.py:37) until "
       "their timeout",
       {0, 3}},
      {"of those that run most wait themselves",
       {waiting(1, 4), rank(2, 4, 20, 20, {line(26)}), waiting(3, 4)},
       {},
       "node 0 hung: rank 2 is in train.py:26; ranks 0-1 and 3 waited in all_reduce (train.py:37) until "
       "their timeout",
       {0}},
      {"all have entered it, and one has timed out first",
       {waiting(1), waiting(2)},
       {},
       "the job hung: ranks 0-2 waited in all_reduce (train.py:37) (number 21 of default_pg), and no rank is "
       "missing: a GPU or the network is stuck",
       {0}},
      {"more run than have failed, and nobody says where",
       {rank(1, 4, 20, 20, {line(3)}), rank(2, 4, 20, 20, {line(3)})},
       {},
       "",
       {0}},
      {"a rank has not come to init_process_group",
       {without_groups(rank(0, 3, 0, 0, {init, line(11)})),
        without_groups(rank(1, 3, 0, 0, {line(5, "load")})),
        without_groups(rank(2, 3, 0, 0, {init, line(11)}))},
       {},
       "node 0 hung: rank 1 is in load (train.py:5); ranks 0 and 2 waited in init_process_group "
       "(train.py:11) until their timeout"},
      {"no numbers: all in one collective",
       {without_groups(waiting(0)), without_groups(waiting(1))},
       {},
       "the job hung: ranks 0-1 waited in all_reduce (train.py:37), and no rank is missing: a GPU or the "
       "network is stuck"},
      {"no numbers, three of four in other lines than the fourth, none in torch.distributed",
       {without_groups(rank(0, 4, 0, 0, {line(50)})), without_groups(rank(1, 4, 0, 0, {line(50)})),
        without_groups(rank(2, 4, 0, 0, {line(26)})), without_groups(rank(3, 4, 0, 0, {line(50)}))},
       {},
       "node 0 hung: rank 2 is in train.py:26; ranks 0-1 and 3 waited in train.py:50 until their timeout"},
      {"no numbers, two of four elsewhere, none in torch.distributed",
       {without_groups(rank(0, 4, 0, 0, {line(50)})), without_groups(rank(1, 4, 0, 0, {line(50)})),
        without_groups(rank(2, 4, 0, 0, {line(26)})), without_groups(rank(3, 4, 0, 0, {line(26)}))},
       {},
       "the job hung: ranks 0-3 waited in different places, which do not show who is to blame"},
      {"a victim's exception comes from another collective than that in which the others are",
       {rank(1, 3, 21, 20, {all_reduce, line(37)}), rank(2, 3, 21, 20, {all_reduce, line(37)})},
       {},
       "node 0 hung: the ranks' collectives do not match (number 21 of default_pg): rank 0 is in barrier "
       "(train.py:18), and ranks 1-2 in all_reduce (train.py:37)",
       {},
       {{0, {.line = line(18), .call = "barrier"}}}},
      {"a victim's exception comes from the collective in which the others are",
       {waiting(1), waiting(2)},
       {},
       "the job hung: ranks 0-2 waited in all_reduce (train.py:37) (number 21 of default_pg), and no rank is "
       "missing: a GPU or the network is stuck",
       {},
       {{0, {.line = line(37), .call = "all_reduce"}}}},
      {"of five ranks two are in other collectives, each in its own",
       {waiting(0, 5), rank(1, 5, 21, 20, {broadcast, line(36)}, "broadcast"), waiting(2, 5),
        rank(3, 5, 21, 20, {barrier, line(30)}, "barrier"), waiting(4, 5)},
       {},
       "node 0 hung: the ranks' collectives do not match (number 21 of default_pg): ranks 1 and 3 are in "
       "barrier (train.py:30), in 1 more, and ranks 0, 2 and 4 in all_reduce (train.py:37)"},
      {"two threads enter the collectives of one group in different orders",
       {rank(0, 3, 22, 20, {barrier, line(19)}, "barrier"),
        rank(1, 3, 22, 20, {barrier, line(19)}, "all_gather"),
        rank(2, 3, 22, 20, {barrier, line(19)}, "barrier")},
       {},
       "node 0 hung: the ranks' collectives do not match (number 22 of default_pg): rank 1 is in all_gather, "
       "and ranks 0 and 2 in barrier"},
      {"two ranks send to each other first",
       {rank(0, 2, 20, 20, {send, line(18)}), rank(1, 2, 20, 20, {send, line(18)})},
       {},
       "the job hung: ranks 0-1 waited in send (train.py:18) for each other, so their sends and receives do "
       "not match"},
      {"a rank receives from one that has timed out since",
       {rank(1, 2, 20, 20, {recv, line(19)})},
       {},
       "the job hung: ranks 0-1 waited in recv (train.py:19) for each other, so their sends and receives do "
       "not match",
       {0}},
      {"two ranks send first, and a third waits for them",
       {rank(0, 3, 20, 20, {send, line(18)}), rank(1, 3, 20, 20, {send, line(18)}), waiting(2)},
       {},
       "node 0 hung: ranks 0-1 are in train.py:18, which called send; rank 2 waited in all_reduce "
       "(train.py:37) until its timeout"},
      {"nobody is in a collective, and nobody does anything",
       {idle(rank(0, 3, 20, 20, {line(18, "prepare")})), idle(rank(1, 3, 20, 20, {line(25)})),
        idle(rank(2, 3, 20, 20, {line(25)}))},
       {},
       "the job hung: ranks 0-2 waited in different places, which do not show who is to blame"},
      {"nobody is in a collective, nobody does anything, and one of four is elsewhere",
       {idle(rank(0, 4, 20, 20, {line(18, "prepare")})), idle(rank(1, 4, 20, 20, {line(25)})),
        idle(rank(2, 4, 20, 20, {line(25)})), idle(rank(3, 4, 20, 20, {line(25)}))},
       {},
       "node 0 hung: rank 0 is in prepare (train.py:18); ranks 1-3 waited in train.py:25 until their "
       "timeout"},
      {"nobody is in a collective, and all wait in one line",
       {idle(rank(0, 2, 20, 20, {line(25)})), idle(rank(1, 2, 20, 20, {line(25)}))},
       {},
       "the job hung: ranks 0-1 waited in train.py:25, in no collective, which does not show who is to "
       "blame"},
      {"nobody is in a collective, and one works",
       {rank(0, 2, 20, 20, {line(18)}), idle(rank(1, 2, 20, 20, {line(25)}))},
       {},
       ""},
  };
}

TEST_CASE("a look at all ranks shows who hangs") {
  for (const Case& one : cases()) {
    INFO(one.name);
    std::map<unsigned, Place> victims = one.places;
    for (const unsigned rank : one.victims) victims[rank];
    const auto culprit = find_hang(one.looks, one.ended, victims);
    CHECK((culprit ? in_words(*culprit) : "") == one.sentence);
  }
}

TEST_CASE("a hang of a job that goes on is told as a sentence of its own") {
  struct Notice {
    std::vector<WorkerLook> looks;
    std::string words;
  };
  WorkerLook validates = rank(0, 3, 20, 20, {line(20, "validate")});
  validates.works = true;
  const std::vector<Notice> notices = {
      {{validates, waiting(1), waiting(2)},
       "ranks 1-2 wait in all_reduce (train.py:37) for rank 0 on node 0 (a), which is in validate "
       "(train.py:20) and works"},
      {{waiting(0), in_state(rank(1, 3, 20, 20, {line(27)}), 'T')},
       "rank 0 waits in all_reduce (train.py:37) for rank 1 on node 0 (a), which is stopped by a signal or a "
       "debugger, in train.py:27"},
      {{waiting(0), waiting(1), waiting(2)},
       "ranks 0-2 wait in all_reduce (train.py:37) (number 21 of default_pg), and no rank is missing: a GPU "
       "or the network is stuck"},
      {{waiting(0), rank(1, 3, 21, 20, {broadcast, line(36)}, "broadcast"), waiting(2)},
       "the ranks' collectives do not match (number 21 of default_pg): rank 1 is in broadcast (train.py:36), "
       "and ranks 0 and 2 in all_reduce (train.py:37)"},
  };
  for (const Notice& notice : notices) {
    auto culprit = find_hang(notice.looks);
    REQUIRE(culprit);
    culprit->host = "a";
    CHECK(present_hang_in_words(*culprit) == notice.words);
  }
}

TEST_CASE("the user's line and the library's call are found in a stack") {
  struct Stack {
    std::string name;
    std::vector<Frame> frames;
    std::string words;
  };
  const std::string site = "/opt/conda/lib/python3.11/site-packages/";
  const std::vector<Stack> stacks = {
      {"a collective",
       {all_reduce, wrapper, line(37, "step")},
       "in step (train.py:37), which called all_reduce"},
      {"no library", {line(26)}, "in train.py:26"},
      {"a module's call",
       {{site + "torch/nn/parallel/distributed.py", 1, "forward"},
        {site + "torch/nn/modules/module.py", 2, "_call_impl"},
        {site + "torch/nn/modules/module.py", 3, "_wrapped_call_impl"},
        line(40, "step")},
       "in step (train.py:40), which called forward"},
      {"a package is the program",
       {all_reduce, {site + "trainer/loop.py", 12, "fit"}, {"/usr/local/bin/trainer", 8, "<module>"}},
       "in fit (loop.py:12), which called all_reduce"},
      {"python -c", {all_reduce, {"<string>", 3, "<module>"}}, "in <string>:3, which called all_reduce"},
      {"64-bit libraries",
       {{"/usr/lib64/python3.9/socket.py", 704, "readinto"}, line(8, "fetch")},
       "in fetch (train.py:8), which called readinto"},
      {"nothing but Python",
       {{"/usr/lib/python3.11/threading.py", 320, "wait"}},
       "in wait (threading.py:320)"},
      {"nothing", {}, "still running"},
  };
  for (const Stack& stack : stacks) {
    INFO(stack.name);
    CHECK(in_words(place_of({.stack = stack.frames})) == stack.words);
  }
}

TEST_CASE(
    "a stack that is too deep keeps its innermost calls, and the user's code with the call that it makes") {
  const std::string torch = "/venv/lib/python3.11/site-packages/torch/";
  std::vector<Frame> stack{all_reduce};
  for (unsigned number = 1; number < 30; ++number) stack.push_back({torch + "fsdp.py", number, "unshard"});
  stack.push_back({torch + "nn/container.py", 253, "forward"});
  stack.push_back({torch + "nn/modules/module.py", 1832, "inner"});
  for (const unsigned number : {25U, 31U, 40U, 41U, 42U, 43U}) stack.push_back(line(number, "validate"));
  shorten(stack, 16);
  REQUIRE(stack.size() == 16);
  CHECK(stack.front() == all_reduce);
  CHECK(stack[7].line == 7);
  CHECK(in_words(place_of({.stack = stack})) == "in validate (train.py:25), which called forward");
  std::vector<Frame> short_one{all_reduce, line(37)};
  shorten(short_one, 16);
  CHECK(short_one.size() == 2);
  std::vector<Frame> libraries(40, {torch + "fsdp.py", 1, "unshard"});
  shorten(libraries, 16);
  CHECK(libraries.size() == 16);
}

TEST_CASE("the frames of a traceback are read, the innermost first") {
  const auto frames = frames_of_traceback(
      "Traceback (most recent call last):\n  File \"/app/a.py\", line 1, in old\nValueError: x\n\nDuring "
      "handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  "
      "File \"/app/train.py\", line 60, in <module>\n    main()\n  File \"/app/train.py\", line 37, in "
      "main\n    dist.all_reduce(x)\nRuntimeError: Timed out waiting 15000ms for recv operation to "
      "complete\n");
  CHECK(frames == std::vector<Frame>{line(37, "main"), line(60)});
  CHECK(frames_of_traceback("").empty());
  CHECK(frames_of_traceback("File \"x").size() == 1);
}

TEST_CASE("who waits for whom is told for each process group") {
  const auto told = [](const std::vector<WorkerLook>& looks, const std::vector<unsigned>& ended = {}) {
    std::vector<std::string> lines;
    for (const Wait& wait : find_waits(looks, ended)) lines.push_back(in_words(wait));
    return lines;
  };
  using Lines = std::vector<std::string>;
  CHECK(told({in_grid(0, {15, 15}, {16, 15}, 9), in_grid(1, {15, 15}, {16, 15}, 9),
              in_grid(2, {16, 15}, {15, 15}, 8), in_grid(3, {15, 15}, {15, 15}, 7)}) ==
        Lines{"rank 0 waits for rank 2 in all_reduce, number 16 of dp",
              "rank 1 waits for rank 3 in all_reduce, number 16 of dp",
              "rank 2 waits for rank 3 in all_reduce, number 16 of tp"});
  CHECK(told({waiting(0), waiting(2)}, {1}) ==
        Lines{"ranks 0 and 2 wait for rank 1 in all_reduce, number 21 of default_pg"});
  CHECK(told({waiting(0, 2), waiting(1, 2)}) ==
        Lines{"ranks 0-1 wait in all_reduce, number 21 of default_pg"});
  CHECK(told({rank(0, 1, 20, 20, {line(1)})}).empty());
}

TEST_CASE("the time for which a job stands still is told") {
  auto culprit = find_hang({waiting(0), rank(1, 3, 20, 20, {line(26)}), waiting(2)});
  REQUIRE(culprit);
  culprit->hang->stalled = 15 * 60 * 1000;
  CHECK(what_happened(*culprit) ==
        "rank 1 is in train.py:26; ranks 0 and 2 waited in all_reduce (train.py:37) for 15 min");
}

TEST_CASE("ranks with equal stacks are one group, and who differs comes first") {
  const auto groups = group_stacks({waiting(0), rank(1, 3, 20, 20, {line(26)}), waiting(2)});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].ranks == std::vector<RankRange>{{1, 1}});
  CHECK(groups[1].ranks == std::vector<RankRange>{{0, 0}, {2, 2}});
  CHECK(in_lines(groups, 40) ==
        std::vector<std::string>{"rank 1: in train.py:26", "    <module> (/app/train.py:26)",
                                 "ranks 0 and 2: in train.py:37, which called all_reduce",
                                 "    all_reduce (" + all_reduce.file + ":2810)",
                                 "    wrapper (" + wrapper.file + ":81)", "    <module> (/app/train.py:37)"});
  CHECK(in_lines(groups, 4).back() == "(3 more lines)");
}

TEST_CASE("8,192 ranks are judged in a moment") {
  constexpr unsigned world = 8192;
  std::vector<WorkerLook> looks;
  for (unsigned number = 0; number < world; ++number)
    looks.push_back(number == 4711 ? rank(number, world, 20, 20, {line(26)}) : waiting(number, world));
  const auto began = std::clock();  // processor time: other tests run beside this one
  const auto culprit = find_hang(looks);
  const auto took = std::clock() - began;
  REQUIRE(culprit);
  CHECK(culprit->rank == 4711U);
  CHECK(took < 2 * CLOCKS_PER_SEC);  // 20 ms without optimisation and sanitizers
}

}  // namespace
}  // namespace rankshim::outcome
