// Stands in for pyxis, NVIDIA's plugin for Slurm, which is in no package: two of its options of srun, and a
// container for each task. It checks the options as pyxis and enroot do (NVIDIA/pyxis@0619349:args.c,
// NVIDIA/enroot@067079e:src/docker.sh). Its container is this machine without /opt and what is mounted there,
// as an image would be, with the mounts of the option. There is one image: the arguments in plugstack.conf
// are its registry and its name.
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <regex.h>
#include <sched.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

SPANK_PLUGIN(pyxis, 1)

enum { image, mounts, options };
static char given[options][PATH_MAX];

static int keep(int option, const char* text, int remote) {
    (void)remote;
    // [USER@][REGISTRY#]IMAGE[:TAG], and SRC:DST[:FLAGS][,SRC:DST...] with absolute paths.
    static const char* const forms[] = {"^([^@#]+@)?([^#]+#)?[a-z0-9/._-]+(:[A-Za-z0-9._:-]+)?$",
                                        "^/[^:,]+:/[^:,]+(:(ro|rw))?(,/[^:,]+:/[^:,]+(:(ro|rw))?)*$"};
    regex_t form;
    regcomp(&form, forms[option], REG_EXTENDED);
    const int wrong = regexec(&form, text, 0, NULL, 0);
    regfree(&form);
    if (wrong) slurm_error("pyxis: invalid format: %s", text);
    snprintf(given[option], PATH_MAX, "%s", text);
    return wrong ? -1 : 0;
}

struct spank_option spank_options[] = {
    {"container-image", "[USER@][REGISTRY#]IMAGE[:TAG]|PATH", "the image", 1, image, keep},
    {"container-mounts", "SRC:DST[:FLAGS][,SRC:DST...]", "bind mounts", 1, mounts, keep},
    SPANK_OPTIONS_TABLE_END};

static int failed(const char* what) {
    slurm_error("pyxis: %s: %m", what);
    return -1;
}

static void make_folders(const char* path) {
    char part[PATH_MAX];
    for (const char* at = path + 1; at; at = strchr(at + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(at - path), path);
        mkdir(part, 0755);
    }
    mkdir(path, 0755);
}

int slurm_spank_task_init_privileged(spank_t spank, int count, char** arguments) {
    (void)spank;
    if (!*given[image]) return 0;
    char known[PATH_MAX] = "";
    if (count == 2) snprintf(known, sizeof known, "%s#%s", arguments[0], arguments[1]);
    if (strcmp(known, given[image]) != 0) {
        slurm_error("pyxis: there is no image %s", given[image]);
        return -1;
    }
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return failed("unshare");
    struct {
        int source;
        const char *target, *flags;
    } asked[8];
    int number = 0;
    for (char *rest = given[mounts], *entry; *rest && number < 8 && (entry = strsep(&rest, ",")); ++number) {
        const char* source = strsep(&entry, ":");
        asked[number].target = strsep(&entry, ":");
        asked[number].flags = entry;
        if ((asked[number].source = open(source, O_PATH | O_CLOEXEC)) < 0) return failed(source);
        if (!rest) rest = "";
    }
    if (mount("tmpfs", "/opt", "tmpfs", 0, NULL)) return failed("/opt");
    for (int i = 0; i < number; ++i) {
        char source[64];
        snprintf(source, sizeof source, "/proc/self/fd/%d", asked[i].source);
        make_folders(asked[i].target);
        if (mount(source, asked[i].target, NULL, MS_BIND, NULL)) return failed(asked[i].target);
        const int read_only = asked[i].flags && strcmp(asked[i].flags, "ro") == 0;
        if (read_only && mount(NULL, asked[i].target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL))
            return failed("ro");
    }
    return 0;
}
