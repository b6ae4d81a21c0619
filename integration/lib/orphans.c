/* orphans SIZE GROUPS: GROUPS times, makes SIZE processes that have ended and then leaves them, all at once, to the reaper
 * of orphans. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t checked_fork(void) {
  const pid_t pid = fork();
  if (pid < 0) {
    perror("orphans: fork");
    _exit(1);
  }
  return pid;
}

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const long size = atol(argv[1]), groups = atol(argv[2]);
  for (long group = 0; group < groups; ++group) {
    const pid_t parent = checked_fork();
    if (parent == 0) {
      for (long i = 0; i < size; ++i)
        if (checked_fork() == 0) _exit(0);
      siginfo_t last;
      waitid(P_ALL, 0, &last, WEXITED | WNOWAIT); /* one of them at least has ended; none is reaped */
      _exit(0);
    }
    int status = 0;
    if (waitpid(parent, &status, 0) != parent || status != 0) return 1;
  }
  return 0;
}
