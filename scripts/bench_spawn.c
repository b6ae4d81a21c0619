// Times fork + exec + wait: bench_spawn [-p] ROUNDS COMMAND... [++ COMMAND...]...
//
// Each round runs every command once, in random order, so that what else the machine does meets all alike and none
// always follows the same other, which leaves it warm caches. Words NAME=VALUE in front of a command are its whole
// environment beside PATH. -p: each command is PID 1 of a new PID namespace (needs root), and sees what a pod has. /dev
// has the devices of every container (OCI runtime-spec, config-linux.md, Default Devices). The network has its own
// address, to which /etc/hosts maps the host name, as kubelet writes it. Prints one line a round: the nanoseconds of
// each command, in the order of the command line. Ends with 1 if a command does not end with 0.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
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

static void must(int done, const char* what) {
  if (done == 0) return;
  perror(what);
  exit(1);
}

static void link_to(const char* target, const char* name) { must(symlink(target, name), name); }

// An interface of a network namespace that has nothing but its loopback.
static void own_address(const char* address) {
  struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  struct sockaddr_in own = {.sin_family = AF_INET};
  const int any = socket(AF_INET, SOCK_DGRAM, 0);
  must(ioctl(any, SIOCSIFFLAGS, &request), "lo up");
  own.sin_addr.s_addr = inet_addr(address);
  strcpy(request.ifr_name, "lo:0");
  memcpy(&request.ifr_addr, &own, sizeof own);
  must(ioctl(any, SIOCSIFADDR, &request), address);
  close(any);
}

// Kubernetes documentation, "Adding entries to Pod /etc/hosts with HostAliases".
static const char kubelets_hosts[] =
    "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

// In namespaces of our own, gone with us.
static void look_like_a_pod(void) {
  static const struct {
    const char* name;
    unsigned major, minor;
  } devices[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};
  char name[256] = "";
  umask(0);
  must(unshare(CLONE_NEWNS | CLONE_NEWNET), "unshare");
  own_address("10.244.0.11");
  must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount /");
  must(mount("tmpfs", "/dev", "tmpfs", MS_NOSUID, "mode=755,size=64k"), "mount /dev");
  must(chdir("/dev"), "/dev");
  for (size_t i = 0; i < sizeof devices / sizeof *devices; ++i)
    must(mknod(devices[i].name, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)), devices[i].name);
  must(mkdir("pts", 0755), "pts");
  must(mkdir("shm", 01777), "shm");
  must(mkdir("mqueue", 01777), "mqueue");
  link_to("/proc/self/fd", "fd");
  link_to("/proc/self/fd/0", "stdin");
  link_to("/proc/self/fd/1", "stdout");
  link_to("/proc/self/fd/2", "stderr");
  link_to("/proc/kcore", "core");
  link_to("pts/ptmx", "ptmx");
  must(gethostname(name, sizeof name - 1), "gethostname");
  FILE* hosts = fopen("/dev/shm/hosts", "w");
  if (!hosts || fprintf(hosts, "%s10.244.0.11\t%s\n", kubelets_hosts, name) < 0 || fclose(hosts) != 0) must(-1, "hosts");
  must(mount("/dev/shm/hosts", "/etc/hosts", NULL, MS_BIND, NULL), "mount /etc/hosts");
  must(chdir("/"), "/");
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

  if (flags & CLONE_NEWPID) look_like_a_pod();
  const int null = open("/dev/null", O_RDWR);
  dup2(null, 0);
  dup2(null, 2);
  const int out = fcntl(1, F_DUPFD_CLOEXEC, 3);
  dup2(null, 1);
  close(null);
  unsigned seed = 1;  // the same order in each call
  for (int round = 0; round < rounds; ++round) {
    int order[max_commands];
    long long took[max_commands];
    for (int i = 0; i < count; ++i) {
      const int j = rand_r(&seed) % (i + 1);
      order[i] = order[j];
      order[j] = i;
    }
    for (int i = 0; i < count; ++i) {
      const int which = order[i];
      const long long start = now();
      const pid_t child = clone(execute, stack + sizeof stack, flags, &commands[which]);
      int status = -1;
      if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        dprintf(out, "command %d: child %d, wait status %d\n", which, child, status);
        return 1;
      }
      took[which] = now() - start;
    }
    for (int i = 0; i < count; ++i) dprintf(out, "%lld%c", took[i], i + 1 < count ? ' ' : '\n');
  }
  return 0;
}
