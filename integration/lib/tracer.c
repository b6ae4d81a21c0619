/* Stops a program, and not its children, at each of its system calls, to send it a signal there. Built by the tests
   (lib/tracer.py). One process runs a whole table of cases, a few milliseconds each.

     tracer [--pid-1] [--limit SECONDS] count -- COMMAND...
     tracer [--pid-1] [--limit SECONDS] signal NUMBER -- COMMAND...

   count   prints "INDEX NUMBER" for each system call after the exec, in order
   signal  for each system call from the first that finds signals blocked (as PID 1; otherwise from the first of all) to
           a few after the one that makes the first child: a run that gets the signal just before that call; prints "INDEX STATUS LEFT"

   STATUS is the exit code, 128 + a signal, or "hung"; LEFT counts processes of the command that outlived the program.
   --pid-1: as PID 1 of a PID namespace with its own /proc. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYSCALL_STOP (SIGTRAP | 0x80)
enum { NEVER = -1, CALLS_AFTER = 6 };

static int pid_1 = 0;
static int limit = 60;
static char **command;
static volatile sig_atomic_t too_long = 0;

static void on_alarm(int number) {
  (void)number;
  too_long = 1;
}

static void die(const char *what) {
  fprintf(stderr, "tracer: %s: %s\n", what, strerror(errno));
  exit(99);
}

static pid_t start(void) {
  const long flags = pid_1 ? CLONE_NEWPID | CLONE_NEWNS : 0;
  const pid_t child = (pid_t)syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0);
  if (child < 0) die("clone");
  if (child != 0) return child;
  if (pid_1 && (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("proc", "/proc", "proc", 0, NULL) != 0))
    die("mount");
  if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) die("PTRACE_TRACEME");
  execv(command[0], command);
  die(command[0]);
  return -1;
}

/* The number of the system call that is about to begin; NEVER where this stop is its end. */
static long entering(pid_t pid) {
  struct __ptrace_syscall_info info;
  memset(&info, 0, sizeof info);
  if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) < 0) return NEVER;
  return info.op == PTRACE_SYSCALL_INFO_ENTRY ? (long)info.entry.nr : NEVER;
}

static int makes_a_child(long number) {
#ifdef SYS_vfork
  if (number == SYS_vfork) return 1;
#endif
#ifdef SYS_fork
  if (number == SYS_fork) return 1;
#endif
  return number == SYS_clone || number == SYS_clone3;
}

struct run {
  long target;    /* index of the call at which something is done */
  int send;       /* this signal, or 0 */
  int print;      /* each call */
  long child;     /* index of the call that made the first child, or NEVER */
  char status[16];
  int left;
};

/* Kills and reaps what the program left to us, its subreaper; how many there were. */
static int sweep(void) {
  int left = 0;
  for (;;) {
    const pid_t pid = waitpid(-1, NULL, WNOHANG);
    if (pid < 0) return left;
    if (pid > 0) continue; /* had ended by itself */
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *file = fopen(path, "r");
    int child = 0;
    while (file && fscanf(file, "%d", &child) == 1) {
      kill(child, SIGKILL);
      waitpid(child, NULL, 0);
      ++left;
    }
    if (file) fclose(file);
  }
}

static void finish(struct run *run, pid_t pid, int status) {
  if (too_long) {
    strcpy(run->status, "hung");
    kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) == pid && !WIFEXITED(status) && !WIFSIGNALED(status)) {
    }
  } else {
    snprintf(run->status, sizeof run->status, "%d", WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  }
  alarm(0);
  run->left = sweep();
}

static void trace(struct run *run) {
  too_long = 0;
  alarm((unsigned)limit);
  const pid_t pid = start();
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) die("the program was not started");
  if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) die("PTRACE_SETOPTIONS");
  long index = 0;
  int watching = 1, pass = 0;
  run->child = NEVER;
  for (;;) {
    if (ptrace(watching ? PTRACE_SYSCALL : PTRACE_CONT, pid, 0, (long)pass) != 0 && errno != ESRCH) die("continue");
    pass = 0;
    if (waitpid(pid, &status, 0) != pid) break; /* the alarm */
    if (WIFEXITED(status) || WIFSIGNALED(status)) break;
    if (WSTOPSIG(status) != SYSCALL_STOP) {
      if (WSTOPSIG(status) != SIGTRAP) pass = WSTOPSIG(status);
      continue;
    }
    const long number = entering(pid);
    if (number == NEVER) continue;
    if (run->print) printf("%ld %ld\n", index, number);
    if (index == run->target) {
      kill(pid, run->send);
      watching = 0;
    }
    if (run->child == NEVER && makes_a_child(number)) run->child = index;
    ++index;
  }
  finish(run, pid, status);
}

/* The index of the first system call that is made with signals blocked. */
static long first_blocked(void) {
  too_long = 0;
  const pid_t pid = start();
  int status = 0;
  long index = 0, found = NEVER;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) die("the program was not started");
  if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) != 0) die("PTRACE_SETOPTIONS");
  while (found == NEVER) {
    if (ptrace(PTRACE_SYSCALL, pid, 0, 0) != 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) break;
    if (WSTOPSIG(status) != SYSCALL_STOP) continue;
    const long number = entering(pid);
    if (number == NEVER) continue;
    ++index;
    if (number == SYS_rt_sigprocmask) found = index;
  }
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  sweep();
  return found;
}

int main(int argc, char **argv) {
  int at = 1;
  for (; at < argc && strncmp(argv[at], "--", 2) == 0; ++at) {
    if (strcmp(argv[at], "--pid-1") == 0) pid_1 = 1;
    if (strcmp(argv[at], "--limit") == 0 && at + 1 < argc) limit = atoi(argv[++at]);
  }
  const char *what = at < argc ? argv[at++] : "";
  char *table = at < argc && strcmp(argv[at], "--") != 0 ? argv[at++] : NULL;
  if (at + 1 >= argc || strcmp(argv[at], "--") != 0) return 64;
  command = argv + at + 1;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm; /* without SA_RESTART: it interrupts waitpid */
  sigaction(SIGALRM, &action, NULL);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  setvbuf(stdout, NULL, _IOLBF, 0);
  struct run run;
  memset(&run, 0, sizeof run);
  run.target = run.child = NEVER;
  if (strcmp(what, "count") == 0) {
    run.print = 1;
    trace(&run);
    printf("end %s %d\n", run.status, run.left);
  } else if (strcmp(what, "signal") == 0 && table) {
    long index = 0;
    if (pid_1) index = first_blocked();
    run.send = atoi(table);
    for (; run.child == NEVER || index <= run.child + CALLS_AFTER; ++index) {
      run.target = index;
      const long child = run.child;
      trace(&run);
      if (run.child == NEVER) run.child = child;
      printf("%ld %s %d\n", index, run.status, run.left);
    }
  } else {
    return 64;
  }
  return 0;
}
