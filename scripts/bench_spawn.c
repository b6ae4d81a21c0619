// Times fork + exec + wait: bench_spawn [-p] ROUNDS COMMAND... [++ COMMAND...]...
//
// Each round runs every command once, in turn, so that what else the machine does meets all alike. Words NAME=VALUE in
// front of a command are its whole environment beside PATH. -p: each command is PID 1 of a new PID namespace (needs
// root). Prints one line a round: the nanoseconds of each command. Ends with 1 if a command does not end with 0.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { max_commands = 16, max_words = 64 };

struct command {
  char* environment[max_words];
  char** argv;
};

static int execute(void* argument) {
  const struct command* command = argument;
  execve(command->argv[0], command->argv, command->environment);
  _exit(127);
}

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int argc, char** argv) {
  static struct command commands[max_commands];
  static char stack[65536] __attribute__((aligned(16)));
  // As vfork does: nothing of ours is copied, so the time is the command's.
  int flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
  int at = 1;
  int count = 0;
  if (at < argc && strcmp(argv[at], "-p") == 0) {
    flags |= CLONE_NEWPID;
    ++at;
  }
  const int rounds = at < argc ? atoi(argv[at++]) : 0;
  while (at < argc && count < max_commands) {
    struct command* command = &commands[count++];
    int variables = 0;
    command->environment[variables++] = "PATH=/usr/bin:/bin";
    for (; at < argc && strchr(argv[at], '=') && argv[at][0] != '/' && variables < max_words - 1; ++at)
      command->environment[variables++] = argv[at];
    command->argv = &argv[at];
    while (at < argc && strcmp(argv[at], "++") != 0) ++at;
    if (at < argc) argv[at++] = NULL;
  }
  if (rounds <= 0 || count == 0) {
    fprintf(stderr, "usage: bench_spawn [-p] ROUNDS [NAME=VALUE...] COMMAND... [++ COMMAND...]...\n");
    return 64;
  }

  const int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  dup2(null, 2);
  const int out = fcntl(1, F_DUPFD_CLOEXEC, 3);
  dup2(null, 1);
  close(null);
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) {
      const long long start = now();
      const pid_t child = clone(execute, stack + sizeof stack, flags, &commands[i]);
      int status = -1;
      if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        dprintf(out, "command %d: child %d, wait status %d\n", i, child, status);
        return 1;
      }
      dprintf(out, "%lld%c", now() - start, i + 1 < count ? ' ' : '\n');
    }
  }
  return 0;
}
