/* The least that a server in one thread does for a command: the benchmark's floor, which keeps no jobs.

   One epoll; each connection that is ready costs one recv and one send, however many commands have come. Answers are
   always the same, found by a line's first letter. With a third argument, a folder, what has come is written in a turn
   with one pwrite and one fdatasync before the answers, unless it is only reserves: to a file that was filled before.

   floor HOST PORT [FOLDER] */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { CONNECTIONS = 1024, EVENTS = 512, BYTES = 1 << 14, FILE_BYTES = 1 << 22 };

static struct { char letter, in_body; } lines[CONNECTIONS]; /* of the line that has not ended yet */
static char in[EVENTS * BYTES], out[EVENTS][16 * BYTES];
static const char *answers[128] = {
    ['p'] = "INSERTED 1\r\n", ['d'] = "DELETED\r\n", ['w'] = "WATCHING 1\r\n", ['i'] = "WATCHING 1\r\n",
    ['u'] = "USING default\r\n", ['l'] = "USING default\r\n",
    ['r'] = "RESERVED 1 100\r\n0123456789012345678901234567890123456789012345678901234567890123456789"
            "012345678901234567890123456789\r\n"};
static size_t sizes[128];

/* Answers what has come on a connection; returns the size of the answers, and says whether they wait for the disk. */
static size_t answer(int fd, const char *at, const char *end, char *to, int *to_sync) {
    char *from = to;
    for (const char *next; at < end; at = next) {
        if (!lines[fd].letter)
            lines[fd].letter = *at & 127;
        if (!(next = memchr(at, '\n', end - at)))
            break;
        next++;
        int letter = lines[fd].in_body ? 'p' : lines[fd].letter;
        lines[fd].letter = 0;
        if ((lines[fd].in_body = letter == 'p' && !lines[fd].in_body))
            continue;
        *to_sync |= letter == 'p' || letter == 'd';
        memcpy(to, answers[letter], sizes[letter]);
        to += sizes[letter];
    }
    return to - from;
}

int main(int argc, char **argv) {
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct epoll_event events[EVENTS], event = {.events = EPOLLIN};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0), poll = epoll_create1(0), file = -1;
    off_t written = 0;
    if (argc < 3 || !inet_aton(argv[1], &address.sin_addr))
        return 2;
    address.sin_port = htons(atoi(argv[2]));
    for (int i = 0; i < 128; i++)
        sizes[i] = strlen(answers[i] ? answers[i] : (answers[i] = "UNKNOWN_COMMAND\r\n"));
    if (argc > 3) { /* nothing of it is left when it ends */
        file = open(argv[3], O_TMPFILE | O_WRONLY, 0600);
        for (size_t i = 0; i < FILE_BYTES / sizeof *out; i++)
            if (write(file, out, sizeof *out) < 0)
                file = -1;
        if (file < 0 || fsync(file))
            return perror(argv[3]), 1;
    }
    event.data.fd = listener;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, CONNECTIONS) ||
        epoll_ctl(poll, EPOLL_CTL_ADD, listener, &event))
        return perror("floor"), 1;
    for (;;) {
        size_t got = 0, left[EVENTS] = {0};
        int to_sync = 0, ready = epoll_wait(poll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                if ((event.data.fd = accept(listener, 0, 0)) < 0 || event.data.fd >= CONNECTIONS)
                    return perror("floor"), 1;
                memset(&lines[event.data.fd], 0, sizeof *lines);
                setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
                epoll_ctl(poll, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            ssize_t count = recv(fd, in + got, BYTES, MSG_DONTWAIT);
            if (count <= 0) {
                close(fd);
                continue;
            }
            left[i] = answer(fd, in + got, in + got + count, out[i], &to_sync);
            if (file >= 0)
                got += count;
            else
                send(fd, out[i], left[i], MSG_NOSIGNAL), left[i] = 0;
        }
        if (to_sync && file >= 0) {
            written = written + (off_t)got > FILE_BYTES ? 0 : written;
            if (pwrite(file, in, got, written) != (ssize_t)got || fdatasync(file))
                return perror("floor"), 1;
            written += got;
        }
        for (int i = 0; i < ready; i++)
            if (left[i])
                send(events[i].data.fd, out[i], left[i], MSG_NOSIGNAL);
    }
}
