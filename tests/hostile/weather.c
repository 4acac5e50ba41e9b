/* What happens to a server from below: its clock jumps, its disk is full or fails. Preloaded into
 * the server, this does as a shared page says. Owns no policy: tests/hostile/weather.py writes the
 * page.
 *
 *   WEATHER_DIR   the data folder, an absolute path; only files in it are disturbed
 *   WEATHER_PAGE  a file of 16 bytes: the disk's mood ('-' all is well, 'n' no space left, 'e' writes
 *                 and syncs fail, 's' syncs fail), seven bytes of nothing, and by how many seconds
 *                 the time of day is wrong (int64)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct page {
  volatile char mood;
  char nothing[7];
  volatile int64_t seconds;
};

static struct page *page;
static char dir[1024];
static size_t dir_length;

__attribute__((constructor)) static void begin(void) {
  const char *folder = getenv("WEATHER_DIR"), *path = getenv("WEATHER_PAGE");
  if (!folder || !path || strlen(folder) >= sizeof dir) return;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return;
  void *at = mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (at == MAP_FAILED) return;
  strcpy(dir, folder);
  dir_length = strlen(dir);
  page = at;
}

static int is_ours(int fd) {
  char link[32], path[1024];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return !strncmp(path, dir, dir_length) && path[dir_length] == '/';
}

/* The error of a write to a file of ours; 0 if it may go on. */
static int of_write(int fd) {
  char mood = page ? page->mood : '-';
  if ((mood != 'n' && mood != 'e') || !is_ours(fd)) return 0;
  return mood == 'n' ? ENOSPC : EIO;
}

static int of_sync(int fd) {
  char mood = page ? page->mood : '-';
  return (mood == 'e' || mood == 's') && is_ours(fd) ? EIO : 0;
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define FAIL_IF(error) \
  do { \
    int code = (error); \
    if (code) { \
      errno = code; \
      return -1; \
    } \
  } while (0)

ssize_t write(int fd, const void *bytes, size_t length) {
  REAL(write);
  FAIL_IF(of_write(fd));
  return real(fd, bytes, length);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
  REAL(pwrite);
  FAIL_IF(of_write(fd));
  return real(fd, bytes, length, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
  REAL(pwrite64);
  FAIL_IF(of_write(fd));
  return real(fd, bytes, length, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(writev);
  FAIL_IF(of_write(fd));
  return real(fd, parts, count);
}

int ftruncate64(int fd, off64_t length) {
  REAL(ftruncate64);
  FAIL_IF(of_write(fd));
  return real(fd, length);
}

/* As posix_fallocate says: the error is the result. */
int posix_fallocate64(int fd, off64_t at, off64_t length) {
  REAL(posix_fallocate64);
  int error = of_write(fd);
  return error ? error : real(fd, at, length);
}

int fallocate64(int fd, int mode, off64_t at, off64_t length) {
  REAL(fallocate64);
  FAIL_IF(of_write(fd));
  return real(fd, mode, at, length);
}

int fsync(int fd) {
  REAL(fsync);
  FAIL_IF(of_sync(fd));
  return real(fd);
}

int fdatasync(int fd) {
  REAL(fdatasync);
  FAIL_IF(of_sync(fd));
  return real(fd);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  REAL(clock_gettime);
  int done = real(clock, now);
  if (page && !done && clock == CLOCK_REALTIME) now->tv_sec += page->seconds;
  return done;
}

int gettimeofday(struct timeval *now, void *zone) {
  REAL(gettimeofday);
  int done = real(now, zone);
  if (page && !done) now->tv_sec += page->seconds;
  return done;
}

time_t time(time_t *to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}
