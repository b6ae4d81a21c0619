/* Stops a program at each of its system calls, to send it a signal there or to refuse the call. Its children are left
   alone. Built by the tests (lib/tracer.py). One process runs a whole table of cases, a few milliseconds each.

     tracer [--pid-1] [--limit SECONDS] count -- COMMAND...
     tracer [--pid-1] [--limit SECONDS] signal NUMBER -- COMMAND...
     tracer [--pid-1] [--limit SECONDS] [--folder FOLDER] refuse ERROR,... -- COMMAND...
     tracer [--pid-1] [--limit SECONDS] [--folder FOLDER] refuse-child ERROR,... -- COMMAND...

   count   prints "INDEX NUMBER" for each system call after the exec, in order
   signal  for each system call from the first that finds signals blocked (as PID 1; otherwise from the first of all) to
           a few after the one that makes the first child: a run that gets the signal just before that call; prints "INDEX STATUS LEFT"

   refuse  for each system call after the exec but what libc does before main and what cannot fail, and for each ERROR: a
           run in which that call does nothing and returns the error; prints "INDEX NUMBER ERROR STATUS LEFT"
   refuse-child  the same for the calls of the first child that vfork(2) made, up to its exec

   With --folder a run's stderr is in FOLDER/INDEX-ERROR.err, and RANKSHIM_REPORT names FOLDER/INDEX-ERROR.json;
   the command finds FOLDER/INDEX-ERROR in RUN.
   STATUS is the exit code, 128 + a signal, or "hung"; LEFT counts processes of the command that outlived the program.
   --pid-1: as PID 1 of a PID namespace with its own /proc. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYSCALL_STOP (SIGTRAP | 0x80)
enum { NEVER = -1, CALLS_AFTER = 6 };

static int pid_1 = 0;
static int limit = 60;
static char **command;
static const char *folder = NULL;
static char run_name[64];
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
  if (folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.json", folder, run_name);
    setenv("RANKSHIM_REPORT", path, 1);
    snprintf(path, sizeof path, "%s/%s", folder, run_name);
    setenv("RUN", path, 1);
    snprintf(path, sizeof path, "%s/%s.err", folder, run_name);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || dup2(file, 2) < 0) die(path);
  }
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

/* What cannot fail, or is libc's before main. */
static int not_ours(long number) {
#ifdef SYS_arch_prctl
  if (number == SYS_arch_prctl) return 1;
#endif
  return number == SYS_set_tid_address || number == SYS_exit || number == SYS_exit_group;
}

/* The stopped call does nothing (PTRACE_O_TRACESYSGOOD's stop at its begin). */
static void skip_call(pid_t pid) {
#if defined(__x86_64__)
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, pid, 0, &registers) != 0) die("PTRACE_GETREGS");
  registers.orig_rax = (unsigned long long)-1;
  if (ptrace(PTRACE_SETREGS, pid, 0, &registers) != 0) die("PTRACE_SETREGS");
#elif defined(__aarch64__)
  int none = -1;
  struct iovec part = {&none, sizeof none};
  if (ptrace(PTRACE_SETREGSET, pid, 0x404 /* NT_ARM_SYSTEM_CALL */, &part) != 0) die("PTRACE_SETREGSET");
#else
#error "this architecture's system call registers"
#endif
}

/* And it returns this (the stop at its end). */
static void set_result(pid_t pid, long value) {
#if defined(__x86_64__)
  struct user_regs_struct registers;
  if (ptrace(PTRACE_GETREGS, pid, 0, &registers) != 0) die("PTRACE_GETREGS");
  registers.rax = (unsigned long long)value;
  if (ptrace(PTRACE_SETREGS, pid, 0, &registers) != 0) die("PTRACE_SETREGS");
#elif defined(__aarch64__)
  struct user_regs_struct registers;
  struct iovec part = {&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, pid, 1 /* NT_PRSTATUS */, &part) != 0) die("PTRACE_GETREGSET");
  registers.regs[0] = (unsigned long long)value;
  if (ptrace(PTRACE_SETREGSET, pid, 1 /* NT_PRSTATUS */, &part) != 0) die("PTRACE_SETREGSET");
#endif
}

struct run {
  long target;    /* index of the call at which something is done */
  int send;       /* this signal, or 0 */
  int refuse;     /* the call gets this error, or 0 */
  int of_child;   /* the calls are those of the first child of vfork(2), up to its exec */
  long number;    /* of the call at which something was done, or NEVER */
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
  const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
  too_long = 0;
  alarm((unsigned)limit);
  const pid_t pid = start();
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) die("the program was not started");
  if (ptrace(PTRACE_SETOPTIONS, pid, 0, options | (run->of_child ? PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC : 0)) != 0)
    die("PTRACE_SETOPTIONS");
  pid_t watched = run->of_child ? 0 : pid; /* whose calls count */
  pid_t stopped = pid;                     /* which waits to be continued, or 0 */
  pid_t early = 0;
  long index = 0;
  int pass = 0, refused = 0;
  run->child = run->number = NEVER;
  for (;;) {
    if (stopped && ptrace(stopped == watched ? PTRACE_SYSCALL : PTRACE_CONT, stopped, 0, (long)pass) != 0 && errno != ESRCH)
      die("continue");
    pass = 0;
    stopped = waitpid(-1, &status, __WALL);
    if (stopped < 0) break; /* the alarm */
    if (WIFEXITED(status) || WIFSIGNALED(status)) {
      if (stopped == pid) break;
      stopped = 0;
    } else if (status >> 16 == PTRACE_EVENT_VFORK) {
      unsigned long made = 0;
      ptrace(PTRACE_GETEVENTMSG, stopped, 0, &made);
      ptrace(PTRACE_SETOPTIONS, stopped, 0, options); /* the others are left alone */
      if (ptrace(PTRACE_CONT, stopped, 0, 0) != 0) die("continue");
      watched = (pid_t)made;
      stopped = early;
    } else if (stopped != pid && watched == 0) {
      early = stopped; /* the child's first stop can come before its parent's word of it */
      stopped = 0;
    } else if (status >> 16 == PTRACE_EVENT_EXEC) {
      ptrace(PTRACE_DETACH, stopped, 0, 0);
      stopped = 0;
    } else if (WSTOPSIG(status) != SYSCALL_STOP) {
      /* A traced child begins with a SIGSTOP of ptrace's own. */
      if (WSTOPSIG(status) != SIGTRAP && !(stopped != pid && WSTOPSIG(status) == SIGSTOP)) pass = WSTOPSIG(status);
    } else {
      const long number = entering(stopped);
      if (number == NEVER) {
        if (refused) {
          set_result(stopped, -run->refuse);
          watched = NEVER;
        }
        continue;
      }
      if (run->print) printf("%ld %ld\n", index, number);
      if (index == run->target) {
        run->number = number;
        refused = run->refuse && !not_ours(number);
        if (refused) skip_call(stopped);
        if (run->send) kill(pid, run->send);
        if (!refused) watched = NEVER;
      }
      if (run->child == NEVER && makes_a_child(number)) run->child = index;
      ++index;
    }
  }
  finish(run, pid, status);
}

/* A run for each call and each of the errors in this list. */
static void refuse_each(struct run *run, const char *errors) {
  for (long index = 0;; ++index) {
    for (const char *at = errors; *at; at += *at == ',') {
      char *end = NULL;
      run->refuse = (int)strtol(at, &end, 10);
      at = end;
      run->target = index;
      snprintf(run_name, sizeof run_name, "%ld-%d", index, run->refuse);
      trace(run);
      if (run->number == NEVER) return; /* so many calls were not made */
      if (not_ours(run->number)) break;
      printf("%ld %ld %d %s %d\n", index, run->number, run->refuse, run->status, run->left);
    }
  }
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
    if (strcmp(argv[at], "--folder") == 0 && at + 1 < argc) folder = argv[++at];
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
  } else if (strncmp(what, "refuse", 6) == 0 && table) {
    run.of_child = strcmp(what, "refuse-child") == 0;
    refuse_each(&run, table);
  } else {
    return 64;
  }
  return 0;
}
