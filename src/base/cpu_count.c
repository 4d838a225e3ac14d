// SPDX-License-Identifier: MIT
// How many CPUs this process may use: those of its affinity mask, or fewer if its cgroup has a
// CPU quota (a container that was started with --cpus=2 sees all 64 CPUs and may use two).
//
// A process is in one cgroup per hierarchy, and each ancestor may have a quota; the smallest
// counts:
//
//     /proc/self/cgroup   0::/system.slice/job          v2: <mount>/system.slice/job/cpu.max
//                         4:cpu,cpuacct:/docker/1234    v1: <mount>/cpu/docker/1234/cpu.cfs_*
//
// Inside a container the path may be the host's while the mount shows only our part of the tree;
// directories that do not exist are then skipped on the way up to the mount, which is ours.
#include "base/pool.h"
#include "base/size_math.h"

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The beginning of a small text file, terminated; false if it cannot be read.
static bool read_text(const char *path, char *text, size_t text_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t length = 0;
    ssize_t got = 1;
    while (length < text_size - 1 && got > 0) {
        got = read(fd, text + length, text_size - 1 - length);
        length += got > 0 ? (size_t)got : 0;
    }
    close(fd);
    text[length] = '\0';
    return got >= 0;
}

static bool read_file_in(const char *directory, const char *name, char *text, size_t text_size)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    return length > 0 && (size_t)length < sizeof path && read_text(path, text, text_size);
}

// Part of a CPU counts as a whole one: 1.5 CPUs keep two threads busier than one.
static size_t quota_to_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return SIZE_MAX;
    return (size_t)(quota / period + (quota % period != 0));
}

// The quota in one cgroup's directory; v2 and v1 files do not occur together.
static size_t cgroup_cpus(const char *directory)
{
    char text[64], period[64];
    long long quota_us, period_us;
    if (read_file_in(directory, "cpu.max", text, sizeof text)) // "150000 100000" or "max 100000"
        return sscanf(text, "%lld %lld", &quota_us, &period_us) == 2
                   ? quota_to_cpus(quota_us, period_us)
                   : SIZE_MAX;
    if (read_file_in(directory, "cpu.cfs_quota_us", text, sizeof text) && // -1: none
        read_file_in(directory, "cpu.cfs_period_us", period, sizeof period))
        return quota_to_cpus(strtoll(text, NULL, 10), strtoll(period, NULL, 10));
    return SIZE_MAX;
}

// The smallest quota from `group` up to the mount itself.
static size_t hierarchy_cpus(const char *mount, const char *hierarchy, const char *group)
{
    char directory[PATH_MAX];
    bool outside = strstr(group, "..") != NULL; // seen from another cgroup namespace
    int length =
        snprintf(directory, sizeof directory, "%s%s%s", mount, hierarchy, outside ? "" : group);
    if (length < 0 || (size_t)length >= sizeof directory)
        return SIZE_MAX;
    size_t top = strlen(mount) + strlen(hierarchy), cpus = SIZE_MAX;
    while (strlen(directory) > top) {
        cpus = mh_smaller(cpus, cgroup_cpus(directory));
        *strrchr(directory, '/') = '\0';
    }
    directory[top] = '\0';
    return mh_smaller(cpus, cgroup_cpus(directory));
}

static bool lists_cpu(char *controllers)
{
    char *rest;
    for (char *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        if (strcmp(name, "cpu") == 0)
            return true;
    return false;
}

// One line of /proc/self/cgroup: number:controllers:path; v2 has no controllers.
static size_t line_cpus(const char *mount, char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || group[1] != '/')
        return SIZE_MAX;
    *group++ = '\0';
    if (*++controllers == '\0')
        return hierarchy_cpus(mount, "", group);
    if (!lists_cpu(controllers))
        return SIZE_MAX;
    return mh_smaller(hierarchy_cpus(mount, "/cpu", group),
                      hierarchy_cpus(mount, "/cpu,cpuacct", group));
}

size_t mh_cgroup_cpus(const char *membership, const char *mount)
{
    char text[16384], *rest;
    if (!read_text(membership, text, sizeof text))
        return SIZE_MAX;
    size_t cpus = SIZE_MAX;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        cpus = mh_smaller(cpus, line_cpus(mount, line));
    return cpus;
}

static size_t affinity_cpus(void)
{
    cpu_set_t sets[8]; // 8192 CPUs, the most that Linux can be built for
    if (sched_getaffinity(0, sizeof sets, sets) == 0)
        return (size_t)CPU_COUNT_S(sizeof sets, sets);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (size_t)online : 1;
}

size_t mh_usable_cpus(void)
{
    size_t cpus =
        mh_smaller(affinity_cpus(), mh_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup"));
    return cpus ? cpus : 1;
}
