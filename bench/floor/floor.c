/*
 * The floor: what the job costs if a program does nothing but the system calls.
 *
 * It logs XMPP clients in with canned answers (PLAIN, any password; bind; empty roster; presence
 * swallowed) and then copies whatever a client sends to its partner, byte for byte, with one read
 * and one write per message. User 2i is the partner of user 2i+1. There is no XML, no routing, no
 * rewriting of addresses, no store: no server can cost less on this kernel with these calls.
 *
 * Usage: floor [PORT]     (default 5422, loopback; SIGINT or SIGTERM prints counts and ends it)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 1024,       /* events taken at once */
    READ_BYTES = 64 * 1024,  /* one buffer for all connections */
    LOGIN_BYTES = 512,       /* largest incomplete step of a login */
    USERS_MAX = 1 << 20,     /* users u0..u1048575 */
    STALL_MS = 1000          /* a partner that takes nothing for so long is closed */
};

#define HEADER                                                                                  \
    "<?xml version='1.0'?><stream:stream from='localhost' id='1' version='1.0' "                \
    "xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'><stream:features>"

enum stage { START, AUTH, RESTART, BIND, ROSTER, FORWARD };

/* State of one connection, by descriptor. `step` is there during the login only. */
struct link {
    char *step;
    int32_t user;
    uint16_t kept;
    uint8_t stage;
};

static struct link *links;
static int links_max;
static int32_t *fd_of_user;
static char buffer[READ_BYTES];
static volatile sig_atomic_t stop;
static uint64_t messages, logins, dropped, stalls;

static void on_signal(int signal_number) {
    (void)signal_number;
    stop = 1;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void drop_link(int fd) {
    struct link *link = &links[fd];
    if (link->user >= 0 && fd_of_user[link->user] == fd) fd_of_user[link->user] = -1;
    free(link->step);
    link->step = NULL;
    link->user = -1;
    close(fd);
}

/* Writes all of it. A full socket is waited for: the floor has no queues. */
static int put(int fd, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t sent = write(fd, bytes, length);
        if (sent < 0) {
            if (errno != EAGAIN) return -1;
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            stalls++;
            if (poll(&wait, 1, STALL_MS) != 1) return -1;
            continue;
        }
        bytes += sent;
        length -= (size_t)sent;
    }
    return 0;
}

static int say(int fd, const char *text) { return put(fd, text, strlen(text)); }

static int base64_value(char letter) {
    if (letter >= 'A' && letter <= 'Z') return letter - 'A';
    if (letter >= 'a' && letter <= 'z') return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9') return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

/* The number in the user name of a PLAIN response: base64 of NUL "u17" NUL password. */
static int plain_user(const char *text) {
    char plain[256];
    size_t length = 0;
    uint32_t bits = 0;
    int count = 0;
    for (; base64_value(*text) >= 0 && length < sizeof plain - 1; text++) {
        bits = bits << 6 | (uint32_t)base64_value(*text);
        count += 6;
        if (count >= 8) {
            count -= 8;
            plain[length++] = (char)(bits >> count);
        }
    }
    plain[length] = 0;
    if (length < 3 || plain[0] != 0) return -1;
    const char *digits = plain + 1 + strspn(plain + 1, "abcdefghijklmnopqrstuvwxyz");
    long user = strtol(digits, NULL, 10);
    return user >= 0 && user < USERS_MAX ? (int)user : -1;
}

/* One step of a login; the text is complete. Returns -1 to close. */
static int login_step(int fd, struct link *link, const char *text) {
    switch (link->stage) {
    case START:
        link->stage = AUTH;
        return say(fd, HEADER "<mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>"
                              "PLAIN</mechanism></mechanisms></stream:features>");
    case AUTH: {
        const char *end = strstr(text, "</auth>");
        const char *start = strchr(text, '>');
        int user = end && start && start < end ? plain_user(start + 1) : -1;
        if (user < 0) return -1;
        link->user = user;
        link->stage = RESTART;
        return say(fd, "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    }
    case RESTART:
        link->stage = BIND;
        return say(fd, HEADER "<bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>"
                              "</stream:features>");
    case BIND: {
        char reply[256];
        snprintf(reply, sizeof reply,
                 "<iq type='result' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                 "<jid>u%d@localhost/flood</jid></bind></iq>", link->user);
        link->stage = ROSTER;
        return say(fd, reply);
    }
    case ROSTER:
        if (say(fd, "<iq type='result' id='r'><query xmlns='jabber:iq:roster'/></iq>")) return -1;
        link->stage = FORWARD;
        free(link->step);
        link->step = NULL;
        fd_of_user[link->user] = fd;
        logins++;
        return 0;
    default:
        return -1;
    }
}

static int login(int fd, struct link *link, ssize_t length) {
    if (!link->step && !(link->step = malloc(LOGIN_BYTES + 1))) return -1;
    if (link->kept + length > LOGIN_BYTES) return -1;
    memcpy(link->step + link->kept, buffer, (size_t)length);
    link->kept = (uint16_t)(link->kept + length);
    link->step[link->kept] = 0;
    /* Clients wait for each answer, so that a step is complete when it ends with `>`; only the
     * declaration before a stream header ends likewise. */
    if (link->step[link->kept - 1] != '>' || link->step[link->kept - 2] == '?') return 0;
    if (link->stage == AUTH && !strstr(link->step, "</auth>")) return 0;
    if (link->stage >= BIND && !strstr(link->step, "</iq>")) return 0;
    link->kept = 0;
    return login_step(fd, link, link->step);
}

static int forward(int fd, struct link *link, ssize_t length) {
    static const char end[] = "</stream:stream>";
    const ssize_t end_length = sizeof end - 1;
    if (length >= end_length && !memcmp(buffer + length - end_length, end, sizeof end - 1)) {
        say(fd, end);
        return -1;
    }
    if (length <= 24 && !memcmp(buffer, "<presence", 9)) return 0;
    int partner = fd_of_user[link->user ^ 1];
    if (partner < 0) {
        dropped++;
        return 0;
    }
    messages++;
    if (put(partner, buffer, (size_t)length)) shutdown(partner, SHUT_RDWR);
    return 0;
}

static void accept_all(int listener, int epoll) {
    for (int turn = 0; turn < 64; turn++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno != EAGAIN) perror("accept");
            return;
        }
        if (fd >= links_max) {
            close(fd);
            continue;
        }
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        links[fd] = (struct link){.user = -1};
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) close(fd);
    }
}

int main(int argc, char **argv) {
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    links_max = (int)limit.rlim_cur;
    links = calloc((size_t)links_max, sizeof *links);
    fd_of_user = malloc(USERS_MAX * sizeof *fd_of_user);
    if (!links || !fd_of_user) fail("memory");
    memset(fd_of_user, 0xff, USERS_MAX * sizeof *fd_of_user);

    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);

    int port = argc > 1 ? atoi(argv[1]) : 5422;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) fail("bind");
    if (listen(listener, 4096)) fail("listen");
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event)) fail("epoll");
    fprintf(stderr, "floor: listening on 127.0.0.1:%d, pid %d\n", port, (int)getpid());

    static struct epoll_event events[EVENTS_MAX];
    while (!stop) {
        int count = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int index = 0; index < count; index++) {
            int fd = events[index].data.fd;
            if (fd == listener) {
                accept_all(listener, epoll);
                continue;
            }
            ssize_t length = read(fd, buffer, sizeof buffer);
            if (length < 0 && errno == EAGAIN) continue;
            struct link *link = &links[fd];
            int broken = length <= 0 || (link->stage == FORWARD ? forward(fd, link, length)
                                                               : login(fd, link, length));
            if (broken) drop_link(fd);
        }
    }
    fprintf(stderr, "floor: %lu logins, %lu messages, %lu without partner, %lu waits for room\n",
            (unsigned long)logins, (unsigned long)messages, (unsigned long)dropped,
            (unsigned long)stalls);
    return 0;
}
