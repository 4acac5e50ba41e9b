/* A network that can be cut. Preloaded into a node of a cluster, this sends its connections to
 * another port of this machine, where the runner passes them on or does not
 * (crates/testkit/src/history/nodes/ways.rs). The node's configuration keeps the real ports.
 *
 *   REDIRECT_PORTS   "FROM=TO,FROM=TO": who connects to 127.0.0.1:FROM reaches 127.0.0.1:TO */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* The port that stands for this one. */
static unsigned instead_of(unsigned port)
{
	const char *at = getenv("REDIRECT_PORTS");
	while (at && *at) {
		char *end;
		unsigned from = strtoul(at, &end, 10);
		if (*end != '=')
			break;
		unsigned to = strtoul(end + 1, &end, 10);
		if (from == port)
			return to;
		at = *end == ',' ? end + 1 : end;
	}
	return port;
}

int connect(int socket, const struct sockaddr *address, socklen_t length)
{
	static int (*next)(int, const struct sockaddr *, socklen_t);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "connect");
	if (address->sa_family != AF_INET || length < sizeof(struct sockaddr_in))
		return next(socket, address, length);
	struct sockaddr_in there;
	memcpy(&there, address, sizeof there);
	if (there.sin_addr.s_addr == htonl(INADDR_LOOPBACK))
		there.sin_port = htons(instead_of(ntohs(there.sin_port)));
	return next(socket, (const struct sockaddr *)&there, sizeof there);
}
