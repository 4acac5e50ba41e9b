/*
 * Occupants of one room: as many connections as descriptors allow, driven by lines on standard
 * input. Every answer is one line, with times of CLOCK_MONOTONIC in nanoseconds, so that several
 * such processes can be put together.
 *
 * Usage: occupants PORT FIRST COUNT MANAGED ROOM     (ROOM "-": no XMPP, for the floor)
 *
 *   login RATE    connects users uFIRST.. with PLAIN and "pw"          -> "online N"
 *   make          the first one enters ROOM and makes it persistent    -> "made"
 *   join RATE     they enter ROOM, each by its own name                -> "joined N BEGIN END"
 *   send N BYTES  the first one sends message N with so long a body    -> "sent N AT"
 *   await N       until all have message N                             -> "all N LAST COPIES BYTES"
 *                 (copies and bytes since the start)
 *   quiet MS      until nothing has come for so long                   -> "quiet"
 *
 * RATE is a number per second; 0 means as fast as it goes.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS_MAX = 1024, READ_BYTES = 256 * 1024, TAIL = 31, PATIENCE_MS = 120000 };
enum stage { START, AUTH, RESTART, BIND, ENABLE, ONLINE, ENTERING, THERE };

struct link {
    int fd;
    enum stage stage;
    uint32_t handled; /* stanzas since stream management was enabled */
    uint64_t seen;    /* the last message that it has */
    char tail[TAIL + 1];
};

static struct link *links;
static int count, first, managed, online, there, poll_fd;
static const char *room;
static int port;
static uint64_t copies, bytes_read, last_at, wanted, have;
static char buffer[READ_BYTES + TAIL + 1];

static uint64_t now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void fail(const char *what) {
    fprintf(stderr, "occupants: %s\n", what);
    exit(1);
}

static void say(struct link *link, const char *text, size_t length) {
    while (length > 0) {
        ssize_t sent = write(link->fd, text, length);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd one = {.fd = link->fd, .events = POLLOUT};
            poll(&one, 1, 1000);
            continue;
        }
        if (sent < 0) fail("a connection ended");
        text += sent;
        length -= (size_t)sent;
    }
}

static void tell(struct link *link, const char *text) { say(link, text, strlen(text)); }

static void open_stream(struct link *link) {
    tell(link, "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
               "xmlns:stream='http://etherx.jabber.org/streams'>");
}

static void base64(const char *in, size_t length, char *out) {
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < length; i += 3) {
        uint32_t group = (uint32_t)(unsigned char)in[i] << 16;
        if (i + 1 < length) group |= (uint32_t)(unsigned char)in[i + 1] << 8;
        if (i + 2 < length) group |= (unsigned char)in[i + 2];
        *out++ = set[group >> 18];
        *out++ = set[group >> 12 & 63];
        *out++ = i + 1 < length ? set[group >> 6 & 63] : '=';
        *out++ = i + 2 < length ? set[group & 63] : '=';
    }
    *out = 0;
}

static void begin(struct link *link) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};
    int yes = 1;
    to.sin_port = htons((uint16_t)port);
    link->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->fd < 0) fail("no descriptor left");
    if (connect(link->fd, (struct sockaddr *)&to, sizeof to) < 0) fail("cannot connect");
    setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, link->fd, &event) < 0) fail("epoll_ctl");
    if (*room == '-') {
        link->stage = THERE;
        online++, there++;
        return;
    }
    open_stream(link);
}

/* The next step of a login or a join, if what has come allows it. */
static void step(struct link *link, const char *text) {
    char plain[64], coded[128], out[512];
    int user = first + (int)(link - links);
    switch (link->stage) {
    case START:
        if (!strstr(text, "</stream:features>")) return;
        plain[0] = 0;
        snprintf(plain + 1, sizeof plain - 1, "u%d", user);
        size_t name = strlen(plain + 1);
        memcpy(plain + 2 + name, "pw", 3);
        base64(plain, name + 4, coded);
        snprintf(out, sizeof out,
                 "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>%s</auth>", coded);
        tell(link, out);
        link->stage = AUTH;
        return;
    case AUTH:
        if (strstr(text, "<failure")) fail(text);
        if (!strstr(text, "<success")) return;
        open_stream(link);
        link->stage = RESTART;
        return;
    case RESTART:
        if (!strstr(text, "</stream:features>")) return;
        tell(link, "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>"
                   "<resource>r</resource></bind></iq>");
        link->stage = BIND;
        return;
    case BIND:
        if (!strstr(text, "</iq>")) return;
        if (managed) tell(link, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        link->stage = managed ? ENABLE : ONLINE;
        online += !managed;
        return;
    case ENABLE:
        if (!strstr(text, "<enabled")) return;
        link->stage = ONLINE;
        online++;
        return;
    case ENTERING:
        if (strstr(text, "type='error'") || strstr(text, "type=\"error\"")) fail(text);
        if (!strstr(text, "110")) return;
        link->stage = THERE;
        there++;
        return;
    case ONLINE:
    case THERE:
        return;
    }
}

/* How often something is in the buffer whose end is behind what was there before. */
static int arrived(const char *what, size_t before) {
    size_t length = strlen(what);
    int found = 0;
    for (const char *at = buffer; (at = strstr(at, what)); at += length) {
        found += (size_t)(at - buffer) + length > before;
    }
    return found;
}

/* What came on one connection: the messages of the room are told by "#N#" in their bodies. */
static void take(struct link *link) {
    size_t kept = strlen(link->tail);
    memcpy(buffer, link->tail, kept);
    ssize_t got = read(link->fd, buffer + kept, READ_BYTES);
    if (got <= 0) fail("the server closed a connection");
    bytes_read += (uint64_t)got;
    size_t length = kept + (size_t)got;
    buffer[length] = 0;
    if (link->stage < THERE) step(link, buffer);
    if (link->stage == THERE) {
        for (const char *at = buffer; (at = strchr(at, '#')); at++) {
            char *end;
            uint64_t number = strtoull(at + 1, &end, 10);
            if (end == at + 1 || *end != '#' || number <= link->seen) continue;
            link->seen = number;
            copies++;
            have += number == wanted;
            last_at = now();
            at = end;
        }
    }
    if (managed && link->stage >= ONLINE) {
        link->handled += (uint32_t)(arrived("<message ", kept) + arrived("<presence ", kept));
        if (arrived("<r xmlns", kept)) {
            char ack[96];
            snprintf(ack, sizeof ack, "<a xmlns='urn:xmpp:sm:3' h='%u'/>", link->handled);
            tell(link, ack);
        }
    }
    size_t keep = length < TAIL ? length : TAIL;
    /* During a login all of an answer is there at once. */
    if (link->stage < ONLINE) keep = 0;
    memcpy(link->tail, buffer + length - keep, keep);
    link->tail[keep] = 0;
}

/* Takes what comes for so long, or until there is nothing. Returns how much was ready. */
static int turn(int wait_ms) {
    static struct epoll_event events[EVENTS_MAX];
    int ready = epoll_wait(poll_fd, events, EVENTS_MAX, wait_ms);
    for (int i = 0; i < ready; i++) take(events[i].data.ptr);
    return ready;
}

/* Waits until a number is reached. */
static void until(const int *number, int target) {
    uint64_t end = now() + (uint64_t)PATIENCE_MS * 1000000u;
    while (*number < target) {
        turn(100);
        if (now() > end) fail("it takes too long");
    }
}

static void enter(struct link *link) {
    char out[512];
    int user = first + (int)(link - links);
    snprintf(out, sizeof out,
             "<presence to='%s/u%d'><x xmlns='http://jabber.org/protocol/muc'>"
             "<history maxstanzas='0'/></x></presence>", room, user);
    if (*room == '-') return;
    link->stage = ENTERING;
    tell(link, out);
}

/* Does something for each connection, so many per second. */
static void paced(double rate, void (*act)(struct link *), const int *done) {
    uint64_t begun = now();
    for (int i = 0; i < count; i++) {
        if (act == enter && links[i].stage == THERE) continue;
        act(&links[i]);
        if (rate <= 0) {
            /* A handful at a time is under way. */
            until(done, i - 64);
            turn(0);
            continue;
        }
        uint64_t due = begun + (uint64_t)(1e9 * (i + 1) / rate);
        while (now() < due) turn(1);
    }
    until(done, count);
}

static void send_message(uint64_t number, int body) {
    static char out[READ_BYTES];
    int length;
    if (body > READ_BYTES / 2) fail("a body that long");
    if (*room == '-') {
        /* As many bytes as a copy of a room has. */
        length = snprintf(out, sizeof out, "#%" PRIu64 "#", number);
        while (length < body) out[length++] = 'x';
    } else {
        length = snprintf(out, sizeof out, "<message to='%s' type='groupchat' id='m%" PRIu64
                          "'><body>#%" PRIu64 "#", room, number, number);
        for (int i = 0; i < body; i++) out[length++] = 'x';
        length += snprintf(out + length, sizeof out - (size_t)length, "</body></message>");
    }
    say(&links[0], out, (size_t)length);
}

static void quiet(int milliseconds) {
    uint64_t end = now() + (uint64_t)milliseconds * 1000000u;
    while (now() < end) {
        if (turn(10) > 0) end = now() + (uint64_t)milliseconds * 1000000u;
    }
}

/* A room that is not configured is locked (XEP-0045 section 10.1). */
static void make(void) {
    char out[768];
    enter(&links[0]);
    until(&there, 1);
    snprintf(out, sizeof out,
             "<iq type='set' id='c' to='%s'><query xmlns='http://jabber.org/protocol/muc#owner'>"
             "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'><value>"
             "http://jabber.org/protocol/muc#roomconfig</value></field>"
             "<field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>",
             room);
    tell(&links[0], out);
}

static void await(uint64_t number) {
    uint64_t end = now() + (uint64_t)PATIENCE_MS * 1000000u;
    wanted = number;
    have = 0;
    for (int i = 0; i < count; i++) have += links[i].seen >= number;
    while (have < (uint64_t)count) {
        turn(100);
        if (now() > end) fail("a copy is missing");
    }
    printf("all %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", number, last_at, copies,
           bytes_read);
}

int main(int argc, char **argv) {
    char line[256];
    struct pollfd input = {.fd = 0, .events = POLLIN};
    if (argc != 6) fail("usage: occupants PORT FIRST COUNT MANAGED ROOM");
    port = atoi(argv[1]), first = atoi(argv[2]), count = atoi(argv[3]), managed = atoi(argv[4]);
    room = argv[5];
    links = calloc((size_t)count, sizeof *links);
    poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!links || poll_fd < 0) fail("no memory");
    setvbuf(stdout, NULL, _IOLBF, 0);
    setvbuf(stdin, NULL, _IONBF, 0);
    for (;;) {
        double rate;
        uint64_t number;
        int more;
        while (poll(&input, 1, 0) == 0) turn(1);
        if (!fgets(line, sizeof line, stdin)) return 0;
        if (sscanf(line, "login %lf", &rate) == 1) {
            paced(rate, begin, &online);
            printf("online %d\n", online);
        } else if (sscanf(line, "join %lf", &rate) == 1) {
            uint64_t begun = now();
            paced(rate, enter, &there);
            printf("joined %d %" PRIu64 " %" PRIu64 "\n", there, begun, now());
        } else if (strncmp(line, "make", 4) == 0) {
            make();
            quiet(300);
            printf("made\n");
        } else if (sscanf(line, "send %" SCNu64 " %d", &number, &more) == 2) {
            wanted = number, have = 0;
            printf("sent %" PRIu64 " %" PRIu64 "\n", number, now());
            send_message(number, more);
        } else if (sscanf(line, "await %" SCNu64, &number) == 1) {
            await(number);
        } else if (sscanf(line, "quiet %d", &more) == 1) {
            quiet(more);
            printf("quiet\n");
        } else {
            fail("an unknown command");
        }
    }
}
