/* Loaded before libc: counts what a process does to files below SHIM_UNDER, writes it down in SHIM_LOG, and makes the SHIM_FAIL-th
   of these calls (with SHIM_STAYS, all from there on) fail with the error SHIM_ERRNO, as a full or broken disk would. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long seen;
static long fails, stays, number;
static const char *under;
static int log_to = -1;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SHIM_LOG");
  under = getenv("SHIM_UNDER");
  fails = getenv("SHIM_FAIL") ? atol(getenv("SHIM_FAIL")) : 0;
  stays = getenv("SHIM_STAYS") != NULL;
  number = getenv("SHIM_ERRNO") ? atol(getenv("SHIM_ERRNO")) : ENOSPC;
  if (path) log_to = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int bad(const char *what, const char *path, const char *more) {
  if (!under || !path || strncmp(path, under, strlen(under))) return 0;
  long now = atomic_fetch_add(&seen, 1) + 1;
  int failing = fails && (stays ? now >= fails : now == fails);
  if (log_to >= 0) dprintf(log_to, "%ld\t%s\t%s\t%s\t%s\n", now, what, path, more ? more : "", failing ? "failed" : "");
  if (failing) errno = (int)number;
  return failing;
}

static int bad_handle(const char *what, int handle) {
  char name[64], path[PATH_MAX];
  if (!under || handle == log_to) return 0;
  snprintf(name, sizeof name, "/proc/self/fd/%d", handle);
  ssize_t size = readlink(name, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return bad(what, path, NULL);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int f, const void *b, size_t n) { return bad_handle("write", f) ? -1 : REAL(write)(f, b, n); }
ssize_t pwrite(int f, const void *b, size_t n, off_t o) { return bad_handle("write", f) ? -1 : REAL(pwrite)(f, b, n, o); }
ssize_t pwrite64(int f, const void *b, size_t n, off64_t o) { return bad_handle("write", f) ? -1 : REAL(pwrite64)(f, b, n, o); }
ssize_t writev(int f, const struct iovec *v, int n) { return bad_handle("write", f) ? -1 : REAL(writev)(f, v, n); }
int fsync(int f) { return bad_handle("fsync", f) ? -1 : REAL(fsync)(f); }
int fdatasync(int f) { return bad_handle("fsync", f) ? -1 : REAL(fdatasync)(f); }
int ftruncate(int f, off_t n) { return bad_handle("truncate", f) ? -1 : REAL(ftruncate)(f, n); }
int ftruncate64(int f, off64_t n) { return bad_handle("truncate", f) ? -1 : REAL(ftruncate64)(f, n); }
int mkdir(const char *p, mode_t m) { return bad("mkdir", p, NULL) ? -1 : REAL(mkdir)(p, m); }
int link(const char *a, const char *b) { return bad("link", b, a) ? -1 : REAL(link)(a, b); }
int linkat(int d, const char *a, int e, const char *b, int g) { return bad("link", b, a) ? -1 : REAL(linkat)(d, a, e, b, g); }
int rename(const char *a, const char *b) { return bad("rename", b, a) ? -1 : REAL(rename)(a, b); }
int renameat(int d, const char *a, int e, const char *b) { return bad("rename", b, a) ? -1 : REAL(renameat)(d, a, e, b); }
int renameat2(int d, const char *a, int e, const char *b, unsigned g) { return bad("exchange", b, a) ? -1 : REAL(renameat2)(d, a, e, b, g); }
