/* Sends requests to a server for a while, and measures from the send of each to the receive of its reply.

   One thread and one line of JSON as the result, so that the client costs little beside the server. Requests under way
   are either a fixed number a socket (-w: the next is sent when a reply comes), or whatever it takes to send at a fixed
   rate (-r: latency is then counted from the moment at which a request was due, not from when it could be sent).

   load [options] PORT REQUEST
     -t SECONDS   how long; 1
     -s SOCKETS   1
     -w WINDOW    requests under way for each socket; 1
     -r RATE      requests a second, over all sockets in turn; without it -w holds
     -n TOTAL     end when so many requests have been answered; -t is then the most
     -f FIRST     the number of the first request; 10000000
     -b ADDRESS   from this address of the machine, as 127.0.0.2
     -e           replies are echoes: they have no code
     -h           REQUEST is HTTP, over connections that stay open: one request under way on each

   `########` in REQUEST becomes the number of the request. A datagram must have it as "seq":########, by which replies
   are recognized. One without a reply is sent again after half a second and counted as lost. With -r it is not sent
   again, and is among the latencies with the time that it has waited in the end. A reply whose code is not 0 is
   counted as refused. SIGTERM ends it before its time, with the result so far. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RING = 1 << 20, REQUEST_MAX = 32768, SOCKETS_MAX = 4096, MARKS_MAX = 4, BURST = 64, EVENTS = 256 };
static const int64_t LOST_NS = 500000000, MS_NS = 1000000, S_NS = 1000000000;

/* A request under way: `number` is -1 if it has been answered. */
struct entry { int64_t since_ns; int32_t number, socket; };

static struct entry ring[RING];
static int sockets[SOCKETS_MAX], http_number[SOCKETS_MAX];
static char http_reply[SOCKETS_MAX][2048];
static int http_have[SOCKETS_MAX];
static char request[REQUEST_MAX], reply[70000], refusal[400];
static size_t request_size, marks[MARKS_MAX];
static int mark_count, is_echo, is_http, window = 1, socket_count = 1;
static int64_t sent, done, lost, refused, total, latency_count, latency_room;
static int32_t first = 10000000, next_number;
static uint32_t *latencies;

static volatile sig_atomic_t is_stopped;

static void stop(int signal) { (void)signal; is_stopped = 1; }

static void fail(const char *what) { perror(what); exit(1); }

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * S_NS + now.tv_nsec;
}

static void transmit(int which, int32_t number) {
    for (int each = 0; each < mark_count; each++) {
        int32_t rest = number;
        for (int digit = 7; digit >= 0; digit--, rest /= 10)
            request[marks[each] + (size_t)digit] = (char)('0' + rest % 10);
    }
    if (send(sockets[which], request, request_size, MSG_NOSIGNAL) < 0 && is_http)
        fail("send");
    sent++;
}

static void begin(int which, int64_t due_ns) {
    struct entry *entry = &ring[next_number % RING];
    if (total && next_number - first >= total)
        return;
    *entry = (struct entry){due_ns, next_number, which};
    http_number[which] = next_number;
    transmit(which, next_number++);
}

static void note(int64_t took_ns) {
    if (latency_count < latency_room)
        latencies[latency_count++] = took_ns < 0 ? 0 : took_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)took_ns;
}

/* Counts a reply; returns whether a request was waiting for it. */
static int end(int32_t number, int64_t at_ns, const char *text, size_t size, const char *ok, size_t ok_size) {
    struct entry *entry = &ring[(uint32_t)number % RING];
    if (number < 0 || entry->number != number || !entry->since_ns)
        return 0;
    note(at_ns - entry->since_ns);
    entry->number = -1;
    if (ok && !memmem(text, size, ok, ok_size)) {
        refused++;
        size_t kept = size < sizeof refusal - 1 ? size : sizeof refusal - 1;
        memcpy(refusal, text, kept);
        refusal[kept] = 0;
    }
    done++;
    return 1;
}

static int32_t number_in(const char *text, ssize_t size) {
    for (ssize_t at = size - 14; at >= 0; at--)
        if (text[at] == '"' && !memcmp(text + at, "\"seq\":", 6))
            return (int32_t)strtol(text + at + 6, NULL, 10);
    return -1;
}

static void read_datagrams(int which, int is_paced) {
    for (int each = 0; each < BURST; each++) {
        ssize_t got = recv(sockets[which], reply, sizeof reply - 1, MSG_DONTWAIT);
        if (got < 0)
            return;
        reply[got] = 0;
        int64_t at_ns = now_ns();
        if (end(number_in(reply, got), at_ns, reply, (size_t)got, is_echo ? NULL : "\"code\":0,", 9) && !is_paced)
            begin(which, at_ns);
    }
}

static void read_http(int which, int is_paced) {
    char *text = http_reply[which];
    ssize_t got = recv(sockets[which], text + http_have[which], sizeof http_reply[0] - 1 - (size_t)http_have[which], MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        fprintf(stderr, "load: the connection was closed after: %.300s\n", text);
        exit(1);
    }
    if (got < 0)
        return;
    http_have[which] += (int)got;
    text[http_have[which]] = 0;
    char *body = strstr(text, "\r\n\r\n"), *length = strcasestr(text, "\r\ncontent-length:");
    if (!body || !length || text + http_have[which] < body + 4 + atoi(length + 17))
        return;
    int64_t at_ns = now_ns();
    end(http_number[which], at_ns, text, (size_t)http_have[which], "HTTP/1.1 200", 12);
    http_have[which] = 0;
    if (!is_paced)
        begin(which, at_ns);
}

static void open_sockets(int port, const char *source, int poll) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (int each = 0; each < socket_count; each++) {
        int one = 1, buffer = 1 << 20, found = socket(AF_INET, is_http ? SOCK_STREAM : SOCK_DGRAM, 0);
        struct sockaddr_in from = {.sin_family = AF_INET};
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)each};
        if (found < 0 || (source && !inet_aton(source, &from.sin_addr)))
            fail("socket");
        setsockopt(found, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        if (source && bind(found, (struct sockaddr *)&from, sizeof from))
            fail("bind");
        if (connect(found, (struct sockaddr *)&to, sizeof to) || epoll_ctl(poll, EPOLL_CTL_ADD, found, &event))
            fail("connect");
        if (is_http)
            setsockopt(found, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        sockets[each] = found;
    }
}

static void send_again(int64_t at_ns, int is_paced) {
    int64_t under_way = is_paced ? 0 : (int64_t)socket_count * window;
    /* Requests that wait are among the latest, except those that have waited longest: the ring is scanned as far back. */
    for (int32_t number = next_number - 1; number >= first && next_number - number < RING && under_way; number--) {
        struct entry *entry = &ring[number % RING];
        if (entry->number != number)
            continue;
        under_way--;
        if (at_ns - entry->since_ns > LOST_NS) {
            lost++;
            entry->since_ns = at_ns;
            transmit(entry->socket, number);
        }
    }
}

static int by_size(const void *a, const void *b) {
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return one < other ? -1 : one > other;
}

static double part_us(double part) {
    return latency_count ? latencies[(int64_t)(part * (double)(latency_count - 1))] / 1000.0 : 0;
}

static void run(int poll, double seconds, double rate) {
    static struct epoll_event events[EVENTS];
    int is_paced = rate > 0, turn = 0;
    int64_t begun_ns = now_ns(), stop_ns = begun_ns + (int64_t)(seconds * 1e9), again_ns = begun_ns, at_ns = begun_ns;
    double step_ns = is_paced ? 1e9 / rate : 0, due_ns = (double)begun_ns;
    if (!is_paced)
        for (int each = 0; each < socket_count * window; each++)
            begin(each % socket_count, now_ns());
    for (; at_ns < stop_ns && !is_stopped && !(total && done >= total); at_ns = now_ns()) {
        struct timespec wait = {0, 100 * MS_NS};
        for (int each = 0; is_paced && each < BURST && due_ns <= (double)at_ns; each++, due_ns += step_ns)
            begin(turn++ % socket_count, (int64_t)due_ns);
        if (is_paced)
            wait.tv_nsec = due_ns <= (double)at_ns ? 0 : due_ns - (double)at_ns < 1e8 ? (long)(due_ns - (double)at_ns) : 100 * MS_NS;
        struct pollfd polled = {.fd = poll, .events = POLLIN};
        ppoll(&polled, 1, &wait, NULL);
        int count = epoll_wait(poll, events, EVENTS, 0);
        for (int each = 0; each < count; each++)
            (is_http ? read_http : read_datagrams)((int)events[each].data.u32, is_paced);
        if (!is_http && at_ns - again_ns > 50 * MS_NS)
            send_again(again_ns = at_ns, is_paced);
    }
    double took_s = (double)(at_ns - begun_ns) / 1e9;
    int64_t counted = done, kept = latency_count;
    /* Replies that still come: to paced requests they count; otherwise they would meet the next client's requests. */
    for (stop_ns = at_ns + LOST_NS; at_ns < stop_ns && done < next_number - first; at_ns = now_ns()) {
        int count = epoll_wait(poll, events, EVENTS, 10);
        for (int each = 0; each < count; each++)
            (is_http ? read_http : read_datagrams)((int)events[each].data.u32, 1);
    }
    if (is_paced) {
        lost = sent - done;
        for (int each = 0; each < RING; each++)
            if (ring[each].number >= 0)
                note(at_ns - ring[each].since_ns);
    } else {
        done = counted;
        latency_count = kept;
    }
    qsort(latencies, (size_t)latency_count, sizeof *latencies, by_size);
    printf("{\"seconds\": %.6f, \"sent\": %ld, \"done\": %ld, \"lost\": %ld, \"refused\": %ld, \"p50_us\": %.1f, "
           "\"p99_us\": %.1f, \"max_us\": %.1f}\n", took_s, sent, done, lost, refused, part_us(0.5), part_us(0.99), part_us(1));
    if (refused)
        fprintf(stderr, "load: refused: %s\n", refusal);
}

int main(int count, char **words) {
    double seconds = 1, rate = 0;
    const char *source = NULL;
    for (int option; (option = getopt(count, words, "t:s:w:r:n:f:b:eh")) != -1;)
        switch (option) {
        case 't': seconds = atof(optarg); break;
        case 's': socket_count = atoi(optarg); break;
        case 'w': window = atoi(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'n': total = atol(optarg); break;
        case 'f': first = atoi(optarg); break;
        case 'b': source = optarg; break;
        case 'e': is_echo = 1; break;
        case 'h': is_http = 1; break;
        default: return 2;
        }
    if (count - optind != 2 || socket_count < 1 || socket_count > SOCKETS_MAX || strlen(words[optind + 1]) >= REQUEST_MAX) {
        fprintf(stderr, "usage: load [options] PORT REQUEST; the options stand at the beginning of load.c\n");
        return 2;
    }
    strcpy(request, words[optind + 1]);
    request_size = strlen(request);
    for (char *mark = request; mark_count < MARKS_MAX && (mark = strstr(mark, "########")); mark += 8)
        marks[mark_count++] = (size_t)(mark - request);
    latency_room = 1 << 23;
    latencies = malloc((size_t)latency_room * sizeof *latencies);
    for (int each = 0; each < RING; each++)
        ring[each].number = -1;
    next_number = first;
    int poll = epoll_create1(0);
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGTERM, stop);
    open_sockets(atoi(words[optind]), source, poll);
    run(poll, seconds, rate);
    return 0;
}
