/*
 * The floor of fan-out: whatever one connection sends is written to all of them, byte for byte, with
 * one read, and one write for each copy. There is no XML, no address in a copy, no queue, no store:
 * no server that writes each copy by itself can cost less on this kernel.
 *
 * Usage: fan PORT     (loopback; SIGINT or SIGTERM ends it)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS_MAX = 1024, READ_BYTES = 64 * 1024, LINKS_MAX = 1 << 20, STALL_MS = 1000 };

static int links[LINKS_MAX]; /* descriptors */
static int place[LINKS_MAX]; /* by descriptor: where it is in `links` */
static int count;
static char buffer[READ_BYTES];
static volatile sig_atomic_t stop;

static void on_signal(int number) {
    (void)number;
    stop = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void drop_link(int fd) {
    int last = links[--count];
    links[place[fd]] = last;
    place[last] = place[fd];
    close(fd);
}

/* Writes all of it; a full socket is waited for. */
static void put(int fd, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t sent = write(fd, bytes, length);
        if (sent < 0) {
            struct pollfd one = {.fd = fd, .events = POLLOUT};
            if (errno == EINTR) continue;
            if (errno != EAGAIN || poll(&one, 1, STALL_MS) <= 0) return;
            continue;
        }
        bytes += sent;
        length -= (size_t)sent;
    }
}

static void take(int listener, int poll_fd) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), yes = 1;
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (fd < 0) return;
        if (fd >= LINKS_MAX || epoll_ctl(poll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        place[fd] = count;
        links[count++] = fd;
    }
}

int main(int argc, char **argv) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event events[EVENTS_MAX], own = {.events = EPOLLIN, .data.fd = listener};
    struct sigaction action = {.sa_handler = on_signal};

    if (argc != 2) {
        fprintf(stderr, "usage: fan PORT\n");
        return 64;
    }
    address.sin_port = htons((uint16_t)atoi(argv[1]));
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (listener < 0 || poll_fd < 0) fail("socket");
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (listen(listener, 4096) < 0) fail("listen");
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, listener, &own) < 0) fail("epoll_ctl");
    while (!stop) {
        int ready = epoll_wait(poll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            ssize_t got;
            if (fd == listener) {
                take(listener, poll_fd);
                continue;
            }
            got = read(fd, buffer, sizeof buffer);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) drop_link(fd);
            for (int to = 0; got > 0 && to < count; to++) put(links[to], buffer, (size_t)got);
        }
    }
    return 0;
}
