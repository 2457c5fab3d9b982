/*
 * A disk that fails and that remembers: preloaded (LD_PRELOAD) into a process
 * under test, it stands between SQLite and the C library.
 *
 *   DISK_FILES  only files whose name contains this text are concerned
 *   DISK_FAIL   a file; while it is there, the calls that it names
 *               ("write", "sync", or both) fail with EIO, for files whose name
 *               also end with what follows a "=", as in "sync=-wal"; with "full",
 *               writes fail with ENOSPC
 *   DISK_KILL   "N=SUFFIX": the N-th write to a file whose name ends so is done by
 *               half, and the process is killed (SIGKILL)
 *   DISK_TRACE  a file; every write, truncation, sync and removal is appended
 *               to it, in the order in which they happened:
 *
 *     struct { char op; char ok; uint16 name; uint32 data; uint64 offset; }
 *
 *   followed by the file's name (without its directory) and the data written.
 *   op: 'W' a write, 'T' a truncation to offset, 'S' a sync, 'U' a removal.
 *   All of it in the byte order of the machine.
 *
 * Go's own runtime makes its system calls itself and is not concerned.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* concerned: the name of the file, without its directory, or NULL. */
static const char *concerned(const char *path) {
	const char *files = getenv("DISK_FILES");
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	if (!files || !strstr(name, files)) return NULL;
	return name;
}

static const char *name_of(int fd, char *path, size_t size) {
	char link[64];
	ssize_t n;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, size - 1);
	if (n <= 0) return NULL;
	path[n] = 0;
	return concerned(path);
}

/* fails: the disk is to fail this call on this file. */
static int fails(const char *call, const char *name) {
	const char *path = getenv("DISK_FAIL");
	char text[256], *only;
	ssize_t n;
	int fd;
	if (!path || (fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY)) < 0) return 0;
	n = syscall(SYS_read, fd, text, sizeof text - 1);
	syscall(SYS_close, fd);
	if (n < 0) n = 0;
	text[n] = 0;
	if ((only = strchr(text, '=')) != NULL) {
		*only++ = 0;
		if (strlen(name) < strlen(only) || strcmp(name + strlen(name) - strlen(only), only)) return 0;
	}
	return strstr(text, call) != NULL;
}

/* last_of: this is the write in the middle of which the process ends. */
static int last_of(const char *name) {
	static long writes;
	const char *kill_at = getenv("DISK_KILL"), *suffix = kill_at ? strchr(kill_at, '=') : NULL;
	if (!suffix++ || strlen(name) < strlen(suffix) || strcmp(name + strlen(name) - strlen(suffix), suffix)) return 0;
	return ++writes == strtol(kill_at, NULL, 10);
}

static void record(char op, int ok, const char *name, uint64_t offset, const void *data, size_t size) {
	const char *path = getenv("DISK_TRACE");
	uint16_t name_size = (uint16_t)strlen(name);
	uint32_t data_size = (uint32_t)size;
	char *buffer;
	int fd;
	if (!path) return;
	if ((fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT, 0600)) < 0) abort();
	if ((buffer = malloc(16 + name_size + size)) == NULL) abort();
	buffer[0] = op;
	buffer[1] = (char)ok;
	memcpy(buffer + 2, &name_size, 2);
	memcpy(buffer + 4, &data_size, 4);
	memcpy(buffer + 8, &offset, 8);
	memcpy(buffer + 16, name, name_size);
	if (size) memcpy(buffer + 16 + name_size, data, size);
	if (syscall(SYS_write, fd, buffer, 16 + name_size + size) != (ssize_t)(16 + name_size + size)) abort();
	free(buffer);
	syscall(SYS_close, fd);
}

static ssize_t written(int fd, const void *data, size_t size, off64_t offset) {
	char path[4096];
	const char *name = name_of(fd, path, sizeof path);
	ssize_t n;
	if (!name) return REAL(pwrite64)(fd, data, size, offset);
	pthread_mutex_lock(&one_at_a_time);
	if (last_of(name)) {
		if (REAL(pwrite64)(fd, data, size / 2, offset) >= 0) kill(getpid(), SIGKILL);
		abort();
	}
	if (fails("write", name)) {
		n = -1;
		errno = EIO;
	} else if (fails("full", name)) {
		n = -1;
		errno = ENOSPC;
	} else if ((n = REAL(pwrite64)(fd, data, size, offset)) > 0) {
		record('W', 1, name, (uint64_t)offset, data, (size_t)n);
	}
	pthread_mutex_unlock(&one_at_a_time);
	return n;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) { return written(fd, data, size, offset); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return written(fd, data, size, offset); }

/* write: SQLite knows it and does not use it where there is pwrite. */
ssize_t write(int fd, const void *data, size_t size) {
	char path[4096];
	if (name_of(fd, path, sizeof path)) abort();
	return REAL(write)(fd, data, size);
}

static int synced(int fd, int (*real)(int)) {
	char path[4096];
	const char *name = name_of(fd, path, sizeof path);
	int failed;
	if (!name) return real(fd);
	pthread_mutex_lock(&one_at_a_time);
	if (fails("sync", name)) {
		failed = -1;
		errno = EIO;
	} else {
		failed = real(fd);
	}
	record('S', !failed, name, 0, NULL, 0);
	pthread_mutex_unlock(&one_at_a_time);
	return failed;
}

int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

static int truncated(int fd, off64_t size) {
	char path[4096];
	const char *name = name_of(fd, path, sizeof path);
	int failed;
	if (!name) return REAL(ftruncate64)(fd, size);
	pthread_mutex_lock(&one_at_a_time);
	if (fails("write", name)) {
		failed = -1;
		errno = EIO;
	} else if ((failed = REAL(ftruncate64)(fd, size)) == 0) {
		record('T', 1, name, (uint64_t)size, NULL, 0);
	}
	pthread_mutex_unlock(&one_at_a_time);
	return failed;
}

int ftruncate64(int fd, off64_t size) { return truncated(fd, size); }
int ftruncate(int fd, off_t size) { return truncated(fd, size); }

int unlink(const char *path) {
	const char *name = concerned(path);
	int failed;
	if (!name) return REAL(unlink)(path);
	pthread_mutex_lock(&one_at_a_time);
	if ((failed = REAL(unlink)(path)) == 0) record('U', 1, name, 0, NULL, 0);
	pthread_mutex_unlock(&one_at_a_time);
	return failed;
}
