/* A disk that forgets. Preloaded into the server under test, this notes how to take back whatever
 * is written under one folder and was not synced yet. After a SIGKILL, which by itself loses
 * nothing that the kernel has, the runner takes it back, as a machine without power would have.
 * It also lets the disk be full or fail on demand.
 *
 *   UNSYNCED_DIR   the folder that is watched, an absolute path
 *   UNSYNCED_UNDO  where notes go; its file `control` holds one byte: '-' all is well, 'n' no space
 *                  left, 'e' writes and syncs fail, 's' syncs fail
 *
 * Notes (crates/testkit/src/history/disk.rs reads them):
 *   f-INODE  records of {offset, size before, length} and the bytes that were at offset before
 *   d-NUMBER one change of a folder, in order: "C path", "R from to saved", "U path saved"
 *
 * A change is noted before it is made; a sync drops notes after it was made. One lock orders
 * everything, so that no note is dropped whose change came behind the sync. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PATH 1024
#define FDS 65536
#define CHANGES 4096

enum { UNKNOWN, OTHER, OURS };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char known[FDS];
static char dir[PATH], undo[PATH];
static size_t dir_length;
static volatile char *control;

/* Folder changes that are not synced: the folder of each, by its number. */
static char *changes[CHANGES];
static unsigned changes_count;

__attribute__((constructor)) static void begin(void) {
  const char *watched = getenv("UNSYNCED_DIR"), *notes = getenv("UNSYNCED_UNDO");
  if (!watched || !notes || strlen(watched) >= PATH || strlen(notes) >= PATH - 64) return;
  char path[PATH + 16];
  snprintf(path, sizeof path, "%s/control", notes);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return;
  void *at = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (at == MAP_FAILED) return;
  strcpy(undo, notes);
  strcpy(dir, watched);
  dir_length = strlen(dir);
  control = at;
}

static int is_under(const char *path) {
  return dir_length && !strncmp(path, dir, dir_length) &&
         (path[dir_length] == '/' || !path[dir_length]);
}

/* The path of an open file, if it is one of ours. */
static int path_of(int fd, char *path) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_under(path);
}

static int is_ours(int fd) {
  if (!dir_length || fd < 0 || fd >= FDS) return 0;
  if (known[fd] == UNKNOWN) {
    char path[PATH];
    int saved = errno;
    known[fd] = path_of(fd, path) ? OURS : OTHER;
    errno = saved;
  }
  return known[fd] == OURS;
}

static int fails(int is_sync) {
  char what = control ? *control : '-';
  if (what == 'n' && !is_sync) { errno = ENOSPC; return 1; }
  if (what == 'e' || (what == 's' && is_sync)) { errno = EIO; return 1; }
  return 0;
}

static int note_file(ino_t inode) {
  char path[PATH + 64];
  snprintf(path, sizeof path, "%s/f-%llu", undo, (unsigned long long)inode);
  return (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Notes what is at [offset, offset + length) of a file before it is changed. */
static void note_bytes(int fd, off_t offset, size_t length) {
  struct stat now;
  if (fstat(fd, &now) || !S_ISREG(now.st_mode)) return;
  uint64_t head[3] = {(uint64_t)offset, (uint64_t)now.st_size, 0};
  if (offset < now.st_size) {
    off_t end = offset + (off_t)length < now.st_size ? offset + (off_t)length : now.st_size;
    head[2] = (uint64_t)(end - offset);
  }
  char *record = malloc(sizeof head + head[2]);
  int note = note_file(now.st_ino);
  if (record && note >= 0) {
    memcpy(record, head, sizeof head);
    if (head[2]) {
      /* The file may be open for writing only. */
      char link[32];
      snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
      int reader = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC, 0);
      ssize_t got = syscall(SYS_pread64, reader, record + sizeof head, head[2], offset);
      if (got != (ssize_t)head[2]) head[2] = 0;
      if (reader >= 0) syscall(SYS_close, reader);
    }
    if (syscall(SYS_write, note, record, sizeof head + head[2]) < 0) abort();
  }
  free(record);
  if (note >= 0) syscall(SYS_close, note);
}

/* Notes a change of a folder. */
static void note_change(const char *folder_of, const char *text) {
  if (changes_count >= CHANGES) abort();
  const char *end = strrchr(folder_of, '/');
  changes[changes_count] = strndup(folder_of, end ? (size_t)(end - folder_of) : 0);
  char path[PATH + 64];
  snprintf(path, sizeof path, "%s/d-%08u", undo, changes_count++);
  int note = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (note < 0 || syscall(SYS_write, note, text, strlen(text)) < 0) abort();
  syscall(SYS_close, note);
}

/* Keeps the file at a path from going away, under a name in the notes; gives that name. */
static int keep(const char *path, char *name) {
  snprintf(name, PATH + 64, "%s/k-%08u", undo, changes_count);
  return !syscall(SYS_linkat, AT_FDCWD, path, AT_FDCWD, name, 0);
}

/* A folder was synced: its changes are there to stay. */
static void drop_changes(const char *folder) {
  for (unsigned at = 0; at < changes_count; at++) {
    if (!changes[at] || strcmp(changes[at], folder)) continue;
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/d-%08u", undo, at);
    syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    free(changes[at]);
    changes[at] = NULL;
  }
}

/* A file was synced: its bytes are there to stay, and so is it if it was new. */
static void drop_bytes(int fd, const struct stat *now) {
  char path[PATH + 64], own[PATH], text[PATH + 8];
  snprintf(path, sizeof path, "%s/f-%llu", undo, (unsigned long long)now->st_ino);
  syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  if (!path_of(fd, own)) return;
  for (unsigned at = 0; at < changes_count; at++) {
    if (!changes[at]) continue;
    snprintf(path, sizeof path, "%s/d-%08u", undo, at);
    int note = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    ssize_t length = syscall(SYS_read, note, text, sizeof text - 1);
    syscall(SYS_close, note);
    if (length < 2 || text[0] != 'C') continue;
    text[length] = 0;
    if (!strcmp(text + 2, own)) {
      syscall(SYS_unlinkat, AT_FDCWD, path, 0);
      free(changes[at]);
      changes[at] = NULL;
    }
  }
}

/* === what the server calls === */

static ssize_t written(int fd, const struct iovec *parts, int count, off_t offset, int is_at) {
  size_t length = 0;
  for (int at = 0; at < count; at++) length += parts[at].iov_len;
  pthread_mutex_lock(&lock);
  ssize_t result = -1;
  if (!fails(0)) {
    struct stat now;
    off_t where = offset;
    if (!is_at) {
      int is_append = fcntl(fd, F_GETFL) & O_APPEND;
      where = is_append && !fstat(fd, &now) ? now.st_size : lseek(fd, 0, SEEK_CUR);
    }
    note_bytes(fd, where, length);
    result = is_at ? syscall(SYS_pwritev, fd, parts, count, (long)offset, 0L)
                   : syscall(SYS_writev, fd, parts, count);
  }
  int saved = errno;
  pthread_mutex_unlock(&lock);
  errno = saved;
  return result;
}

ssize_t write(int fd, const void *bytes, size_t length) {
  if (!is_ours(fd)) return syscall(SYS_write, fd, bytes, length);
  struct iovec part = {(void *)bytes, length};
  return written(fd, &part, 1, 0, 0);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  if (!is_ours(fd)) return syscall(SYS_writev, fd, parts, count);
  return written(fd, parts, count, 0, 0);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
  if (!is_ours(fd)) return syscall(SYS_pwrite64, fd, bytes, length, offset);
  struct iovec part = {(void *)bytes, length};
  return written(fd, &part, 1, offset, 1);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
  return pwrite64(fd, bytes, length, offset);
}

int ftruncate64(int fd, off64_t length) {
  if (!is_ours(fd)) return (int)syscall(SYS_ftruncate, fd, length);
  pthread_mutex_lock(&lock);
  note_bytes(fd, length, SIZE_MAX >> 2);
  int result = (int)syscall(SYS_ftruncate, fd, length);
  int saved = errno;
  pthread_mutex_unlock(&lock);
  errno = saved;
  return result;
}

int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

static int synced(int fd, long call) {
  if (!is_ours(fd)) return (int)syscall(call, fd);
  pthread_mutex_lock(&lock);
  int result = fails(1) ? -1 : (int)syscall(call, fd);
  int saved = errno;
  struct stat now;
  if (!result && !fstat(fd, &now)) {
    char path[PATH];
    if (!S_ISDIR(now.st_mode)) drop_bytes(fd, &now);
    else if (path_of(fd, path)) drop_changes(path);
  }
  pthread_mutex_unlock(&lock);
  errno = saved;
  return result;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

int close(int fd) {
  if (fd >= 0 && fd < FDS) known[fd] = UNKNOWN;
  return (int)syscall(SYS_close, fd);
}

static int opened(const char *path, int flags, mode_t mode) {
  if (!is_under(path) || !(flags & (O_CREAT | O_TRUNC)))
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  pthread_mutex_lock(&lock);
  struct stat now;
  int is_there = !stat(path, &now);
  int result = -1;
  if (is_there || !(flags & O_CREAT) || !fails(0)) {
    int cuts = is_there && (flags & O_TRUNC);
    if (!is_there && (flags & O_CREAT)) {
      char text[PATH + 8];
      snprintf(text, sizeof text, "C %s", path);
      note_change(path, text);
    }
    result = (int)syscall(SYS_openat, AT_FDCWD, path, flags & ~(cuts ? O_TRUNC : 0), mode);
    if (cuts && result >= 0) {
      note_bytes(result, 0, SIZE_MAX >> 2);
      syscall(SYS_ftruncate, result, 0L);
    }
  }
  int saved = errno;
  pthread_mutex_unlock(&lock);
  errno = saved;
  return result;
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(path, flags, mode);
}

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return opened(path, flags, mode);
}

int rename(const char *from, const char *to) {
  if (!is_under(to)) return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
  pthread_mutex_lock(&lock);
  char name[PATH + 64] = "-", text[3 * PATH + 128];
  if (!keep(to, name)) strcpy(name, "-");
  snprintf(text, sizeof text, "R %s %s %s", from, to, name);
  note_change(to, text);
  int result = (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
  int saved = errno;
  pthread_mutex_unlock(&lock);
  errno = saved;
  return result;
}

int unlink(const char *path) {
  if (!is_under(path)) return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  pthread_mutex_lock(&lock);
  char name[PATH + 64], text[2 * PATH + 128];
  struct stat now;
  if (!stat(path, &now) && S_ISREG(now.st_mode) && keep(path, name)) {
    snprintf(text, sizeof text, "U %s %s", path, name);
    note_change(path, text);
  }
  int result = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
  int saved = errno;
  pthread_mutex_unlock(&lock);
  errno = saved;
  return result;
}
