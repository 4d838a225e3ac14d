// SPDX-License-Identifier: MIT
// The listening socket: a port in use has its own message, and port 0 becomes the one assigned.
#include "messages.h"
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_wildcard(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
    return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr ==
           htonl(INADDR_ANY);
}

static int port_of(int descriptor)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getsockname(descriptor, (struct sockaddr *)&address, &size) != 0)
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

static bool listen_at(listener *l, const struct addrinfo *a)
{
    const int yes = 1;
    l->socket = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
    if (l->socket < 0)
        return false;
    setsockopt(l->socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(l->socket, a->ai_addr, a->ai_addrlen) == 0 && listen(l->socket, SOMAXCONN) == 0) {
        l->port = port_of(l->socket);
        l->any_address = is_wildcard(a->ai_addr);
        return true;
    }
    const int error = errno;
    listener_close(l);
    errno = error;
    return false;
}

int listener_open(listener *l)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[16];
    snprintf(port, sizeof port, "%d", l->port);
    const int error = getaddrinfo(l->host, port, &hints, &found);
    if (error) {
        complain("--host %s: %s", l->host,
                 error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
        return EXIT_FAILED;
    }
    bool open = false;
    for (const struct addrinfo *a = found; a && !open; a = a->ai_next)
        open = listen_at(l, a);
    const int reason = errno;
    freeaddrinfo(found);
    const bool six = strchr(l->host, ':') != NULL;
    snprintf(l->url, sizeof l->url, "http://%s%s%s:%d/", six ? "[" : "", l->host, six ? "]" : "",
             l->port);
    if (open)
        return EXIT_DONE;
    complain("--host %s --port %d: %s%s", l->host, l->port, strerror(reason),
             reason == EADDRINUSE ? "; --port 0 picks a free one" : "");
    return EXIT_FAILED;
}

void listener_close(listener *l)
{
    if (l->socket >= 0)
        close(l->socket);
    l->socket = -1;
}

// ---- names --------------------------------------------------------------------------------------

// An IP address, IPv6 in []: not a host name, so DNS rebinding cannot forge it.
static bool is_address(const char *host, size_t size)
{
    unsigned char address[sizeof(struct in6_addr)];
    char text[INET6_ADDRSTRLEN];
    const bool six = size > 2 && host[0] == '[' && host[size - 1] == ']';
    const size_t from = six ? 1 : 0, length = six ? size - 2 : size;
    if (length >= sizeof text)
        return false;
    memcpy(text, host + from, length);
    text[length] = 0;
    return inet_pton(six ? AF_INET6 : AF_INET, text, address) == 1;
}

static bool same_name(const char *name, const char *host, size_t size)
{
    return strlen(name) == size && strncasecmp(name, host, size) == 0;
}

bool listener_knows(const listener *l, mh_text host)
{
    char port[16], bracketed[300];
    const size_t port_size = (size_t)snprintf(port, sizeof port, ":%d", l->port);
    snprintf(bracketed, sizeof bracketed, "[%s]", l->host);
    size_t name = host.size > port_size ? host.size - port_size : 0;
    if (name == 0 || memcmp(host.bytes + name, port, port_size) != 0) {
        if (l->port != 80) // browsers omit it
            return false;
        name = host.size;
    }
    static const char *const ours[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (same_name(ours[i], host.bytes, name))
            return true;
    return same_name(l->host, host.bytes, name) || same_name(bracketed, host.bytes, name) ||
           (l->any_address && is_address(host.bytes, name));
}
