/* Loaded before libc: counts the file operations of a process below SHIM_UNDER, logs them to SHIM_LOG, and makes the SHIM_FAIL-th of
   these calls (with SHIM_STAYS, all from there on) fail with the error SHIM_ERRNO, like a full or broken disk; with SHIM_KILL its process
   group is killed before the call instead. The variables are read when the process starts, and when it calls `shim_read_environment` (a fork of tests/server.py, which changes its environment). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long call_count;
static long failing_call, is_permanent, is_kill, error_code;
static const char *watched_folder;
static int log_handle = -1;

__attribute__((constructor)) void shim_read_environment(void) {
  const char *path = getenv("SHIM_LOG");
  watched_folder = getenv("SHIM_UNDER");
  failing_call = getenv("SHIM_FAIL") ? atol(getenv("SHIM_FAIL")) : 0;
  is_permanent = getenv("SHIM_STAYS") != NULL;
  is_kill = getenv("SHIM_KILL") != NULL;
  error_code = getenv("SHIM_ERRNO") ? atol(getenv("SHIM_ERRNO")) : ENOSPC;
  if (path) log_handle = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int should_fail(const char *operation, const char *path, const char *source) {
  if (!watched_folder || !path || strncmp(path, watched_folder, strlen(watched_folder))) return 0;
  long call_number = atomic_fetch_add(&call_count, 1) + 1;
  int failing = failing_call && (is_permanent ? call_number >= failing_call : call_number == failing_call);
  if (log_handle >= 0) dprintf(log_handle, "%ld\t%s\t%s\t%s\t%s\n", call_number, operation, path, source ? source : "", failing ? "failed" : "");
  if (failing && is_kill) kill(0, SIGKILL);
  if (failing) errno = (int)error_code;
  return failing;
}

static int should_fail_handle(const char *operation, int handle) {
  char name[64], path[PATH_MAX];
  if (!watched_folder || handle == log_handle) return 0;
  snprintf(name, sizeof name, "/proc/self/fd/%d", handle);
  ssize_t size = readlink(name, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return should_fail(operation, path, NULL);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int f, const void *b, size_t n) { return should_fail_handle("write", f) ? -1 : REAL(write)(f, b, n); }
ssize_t pwrite(int f, const void *b, size_t n, off_t o) { return should_fail_handle("write", f) ? -1 : REAL(pwrite)(f, b, n, o); }
ssize_t pwrite64(int f, const void *b, size_t n, off64_t o) { return should_fail_handle("write", f) ? -1 : REAL(pwrite64)(f, b, n, o); }
ssize_t writev(int f, const struct iovec *v, int n) { return should_fail_handle("write", f) ? -1 : REAL(writev)(f, v, n); }
int fsync(int f) { return should_fail_handle("fsync", f) ? -1 : REAL(fsync)(f); }
int fdatasync(int f) { return should_fail_handle("fsync", f) ? -1 : REAL(fdatasync)(f); }
int ftruncate(int f, off_t n) { return should_fail_handle("truncate", f) ? -1 : REAL(ftruncate)(f, n); }
int ftruncate64(int f, off64_t n) { return should_fail_handle("truncate", f) ? -1 : REAL(ftruncate64)(f, n); }
int mkdir(const char *p, mode_t m) { return should_fail("mkdir", p, NULL) ? -1 : REAL(mkdir)(p, m); }
int link(const char *a, const char *b) { return should_fail("link", b, a) ? -1 : REAL(link)(a, b); }
int linkat(int d, const char *a, int e, const char *b, int g) { return should_fail("link", b, a) ? -1 : REAL(linkat)(d, a, e, b, g); }
int rename(const char *a, const char *b) { return should_fail("rename", b, a) ? -1 : REAL(rename)(a, b); }
int renameat(int d, const char *a, int e, const char *b) { return should_fail("rename", b, a) ? -1 : REAL(renameat)(d, a, e, b); }
int renameat2(int d, const char *a, int e, const char *b, unsigned g) { return should_fail("exchange", b, a) ? -1 : REAL(renameat2)(d, a, e, b, g); }
