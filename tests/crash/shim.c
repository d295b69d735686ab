/* Counts the calls of libc that change files below one folder, and kills its own process at call n.
 *
 * Preloaded (LD_PRELOAD) into an interpreter, so that SQLite, Python and Rust code are all seen. Every call
 * goes to the kernel directly; a call outside of the folder, or while not armed, is passed on unchanged.
 * Stores into shared mappings are no calls: only the msync that follows one is seen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT = 0, BEFORE = 1, AFTER = 2, TORN = 3 };

static char folder[4096];
static size_t folder_length; /* 0 = not armed */
static int mode, report = -1;
static long target;
static atomic_long calls, data; /* all calls; those that write at least two bytes */

/* Start counting below `path`; kill at call `n` of all (before, after) or of those with data (torn). A line
 * for each call goes to file descriptor `fd` (with `mode` 0), or for the call of the kill only; -1 = nowhere. */
void crash_arm(long n, int how, const char *path, int fd) {
  folder_length = 0;
  if (strlen(path) >= sizeof folder) return;
  strcpy(folder, path);
  target = n, mode = how, report = fd;
  atomic_store(&calls, 0), atomic_store(&data, 0);
  folder_length = strlen(folder);
}
void crash_disarm(void) { folder_length = 0; }
long crash_calls(void) { return calls; }
long crash_data(void) { return data; }

static int below(const char *path) {
  return !strncmp(path, folder, folder_length) && (path[folder_length] == '/' || !path[folder_length]);
}
/* The path of a file descriptor, or of a name relative to one; "" when there is none. */
static void path_of(int fd, const char *name, char *out, size_t size) {
  char link[64];
  out[0] = 0;
  if (name && name[0] == '/') {
    snprintf(out, size, "%s", name);
    return;
  }
  if (fd == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
  else snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, out, size - 1);
  out[n > 0 ? n : 0] = 0;
  if (name && n > 0) snprintf(out + n, size - n, "/%s", name);
}
static void die(void) {
  syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
  for (;;) syscall(SYS_sched_yield);
}
static void tell(long n, const char *call, const char *path) {
  char line[4400];
  const char *rest = path + folder_length;
  int length = snprintf(line, sizeof line, "%ld %s %s\n", n, call, *rest == '/' ? rest + 1 : rest);
  if (report >= 0) (void)!syscall(SYS_write, report, line, (size_t)length);
}

/* What to do with a call: 0 = pass it on, AFTER = pass it on and die, TORN = do half of it and die. */
static int seen(const char *call, int fd, const char *name, size_t bytes) {
  int error = errno, what = 0;
  char path[4200];
  if (!folder_length) return 0;
  path_of(fd, name, path, sizeof path);
  if (below(path)) {
    long n = ++calls, d = bytes > 1 ? ++data : 0;
    if (mode == COUNT) tell(n, call, path);
    else if (mode == TORN ? (d && d == target) : n == target) {
      tell(n, call, path);
      if (mode == BEFORE) die();
      what = mode;
    }
  }
  errno = error;
  return what;
}
#define DURABLE(call, fd, name, real)            \
  do {                                           \
    int what_ = seen(call, fd, name, 0);         \
    long result_ = (real);                       \
    if (what_) die();                            \
    return result_;                              \
  } while (0)

static ssize_t writing(const char *call, int fd, const void *buffer, size_t n, off_t at, int positioned) {
  int what = seen(call, fd, NULL, n);
  size_t part = what == TORN ? n / 2 : n;
  ssize_t result = positioned ? syscall(SYS_pwrite64, fd, buffer, part, at) : syscall(SYS_write, fd, buffer, part);
  if (what) die();
  return result;
}
ssize_t write(int fd, const void *b, size_t n) { return writing("write", fd, b, n, 0, 0); }
ssize_t pwrite(int fd, const void *b, size_t n, off_t at) { return writing("pwrite", fd, b, n, at, 1); }
ssize_t pwrite64(int fd, const void *b, size_t n, off_t at) { return writing("pwrite", fd, b, n, at, 1); }

static ssize_t vector(const char *call, int fd, const struct iovec *v, int count, off_t at, int positioned) {
  size_t bytes = 0;
  for (int i = 0; i < count; i++) bytes += v[i].iov_len;
  int what = seen(call, fd, NULL, bytes);
  ssize_t result;
  if (what == TORN) { /* whole buffers up to the half, and a part of the next one */
    size_t left = bytes / 2;
    for (int i = 0; i < count && left; i++) {
      size_t part = v[i].iov_len < left ? v[i].iov_len : left;
      if (positioned) (void)!syscall(SYS_pwrite64, fd, v[i].iov_base, part, at);
      else (void)!syscall(SYS_write, fd, v[i].iov_base, part);
      at += part, left -= part;
    }
    die();
  }
  result = positioned ? syscall(SYS_pwritev, fd, v, count, (long)at, 0L) : syscall(SYS_writev, fd, v, count);
  if (what) die();
  return result;
}
ssize_t writev(int fd, const struct iovec *v, int n) { return vector("writev", fd, v, n, 0, 0); }
ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at) { return vector("pwritev", fd, v, n, at, 1); }
ssize_t pwritev64(int fd, const struct iovec *v, int n, off_t at) { return vector("pwritev", fd, v, n, at, 1); }

int fsync(int fd) { DURABLE("fsync", fd, NULL, syscall(SYS_fsync, fd)); }
int fdatasync(int fd) { DURABLE("fdatasync", fd, NULL, syscall(SYS_fdatasync, fd)); }
int ftruncate(int fd, off_t n) { DURABLE("ftruncate", fd, NULL, syscall(SYS_ftruncate, fd, n)); }
int ftruncate64(int fd, off_t n) { DURABLE("ftruncate", fd, NULL, syscall(SYS_ftruncate, fd, n)); }
int truncate(const char *p, off_t n) { DURABLE("truncate", AT_FDCWD, p, syscall(SYS_truncate, p, n)); }
int truncate64(const char *p, off_t n) { DURABLE("truncate", AT_FDCWD, p, syscall(SYS_truncate, p, n)); }
int fallocate(int fd, int m, off_t a, off_t n) { DURABLE("fallocate", fd, NULL, syscall(SYS_fallocate, fd, m, a, n)); }
int fallocate64(int fd, int m, off_t a, off_t n) { DURABLE("fallocate", fd, NULL, syscall(SYS_fallocate, fd, m, a, n)); }
ssize_t copy_file_range(int in, off64_t *ia, int out, off64_t *oa, size_t n, unsigned f) {
  DURABLE("copy_file_range", out, NULL, syscall(SYS_copy_file_range, in, ia, out, oa, n, f));
}
ssize_t sendfile(int out, int in, off_t *at, size_t n) { DURABLE("sendfile", out, NULL, syscall(SYS_sendfile, out, in, at, n)); }
ssize_t sendfile64(int out, int in, off_t *at, size_t n) { DURABLE("sendfile", out, NULL, syscall(SYS_sendfile, out, in, at, n)); }

int renameat2(int a, const char *p, int b, const char *q, unsigned f) {
  DURABLE("rename", b, q, syscall(SYS_renameat2, a, p, b, q, f));
}
int renameat(int a, const char *p, int b, const char *q) { return renameat2(a, p, b, q, 0); }
int rename(const char *p, const char *q) { return renameat2(AT_FDCWD, p, AT_FDCWD, q, 0); }
int linkat(int a, const char *p, int b, const char *q, int f) { DURABLE("link", b, q, syscall(SYS_linkat, a, p, b, q, f)); }
int link(const char *p, const char *q) { return linkat(AT_FDCWD, p, AT_FDCWD, q, 0); }
int symlinkat(const char *p, int b, const char *q) { DURABLE("symlink", b, q, syscall(SYS_symlinkat, p, b, q)); }
int symlink(const char *p, const char *q) { return symlinkat(p, AT_FDCWD, q); }
int unlinkat(int a, const char *p, int f) { DURABLE("unlink", a, p, syscall(SYS_unlinkat, a, p, f)); }
int unlink(const char *p) { return unlinkat(AT_FDCWD, p, 0); }
int rmdir(const char *p) { return unlinkat(AT_FDCWD, p, AT_REMOVEDIR); }
int mkdirat(int a, const char *p, mode_t m) { DURABLE("mkdir", a, p, syscall(SYS_mkdirat, a, p, m)); }
int mkdir(const char *p, mode_t m) { return mkdirat(AT_FDCWD, p, m); }

/* Stores into a shared mapping of a file reach the file without any call; whose mapping it is, is not known
 * here, so that every msync while armed counts. */
int msync(void *at, size_t n, int f) { DURABLE("msync", AT_FDCWD, folder, syscall(SYS_msync, at, n, f)); }

/* Opening changes files only where it creates or empties one. */
static int opening(int a, const char *p, int flags, mode_t m) {
  int error = errno;
  int changes = (flags & O_TRUNC) || ((flags & O_CREAT) && syscall(SYS_faccessat, a, p, F_OK));
  errno = error;
  if (!changes || !folder_length) return syscall(SYS_openat, a, p, flags, m);
  DURABLE("open", a, p, syscall(SYS_openat, a, p, flags, m));
}
#define MODE(flags, m)                       \
  do {                                       \
    if ((flags) & (O_CREAT | O_TMPFILE)) {   \
      va_list list_;                         \
      va_start(list_, flags);                \
      (m) = va_arg(list_, mode_t);           \
      va_end(list_);                         \
    }                                        \
  } while (0)
int open(const char *p, int flags, ...) { mode_t m = 0; MODE(flags, m); return opening(AT_FDCWD, p, flags, m); }
int open64(const char *p, int flags, ...) { mode_t m = 0; MODE(flags, m); return opening(AT_FDCWD, p, flags, m); }
int openat(int a, const char *p, int flags, ...) { mode_t m = 0; MODE(flags, m); return opening(a, p, flags, m); }
int openat64(int a, const char *p, int flags, ...) { mode_t m = 0; MODE(flags, m); return opening(a, p, flags, m); }
int creat(const char *p, mode_t m) { return opening(AT_FDCWD, p, O_CREAT | O_WRONLY | O_TRUNC, m); }
int creat64(const char *p, mode_t m) { return opening(AT_FDCWD, p, O_CREAT | O_WRONLY | O_TRUNC, m); }
