/* Echoes datagrams: the least that a server in one thread can do for a request. The benchmark's figures are ratios to it.

   It waits with epoll, receives with recvfrom until nothing is left, and answers each datagram at once with sendto, as
   lxyfirst/id_server does. It binds a port of 127.0.0.1, writes the port in a line, and serves until it is killed. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>

int main(void) {
    static char data[65536];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int buffer = 4 << 20, udp = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), poll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    setsockopt(udp, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    setsockopt(udp, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    if (udp < 0 || poll < 0 || bind(udp, (struct sockaddr *)&address, size) ||
        getsockname(udp, (struct sockaddr *)&address, &size) || epoll_ctl(poll, EPOLL_CTL_ADD, udp, &event)) {
        perror("echo");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    for (;;) {
        epoll_wait(poll, &event, 1, -1);
        for (;;) {
            struct sockaddr_in from;
            socklen_t from_size = sizeof from;
            ssize_t got = recvfrom(udp, data, sizeof data, 0, (struct sockaddr *)&from, &from_size);
            if (got < 0)
                break;
            sendto(udp, data, (size_t)got, 0, (struct sockaddr *)&from, from_size);
        }
    }
}
