"""Many chatters of a cluster, more than one process of Python bears; and what is said of any."""
import asyncio
import multiprocessing
import signal
import time

from . import chatter, process

# Who leave their node at a time, in each process.
FEW = 10


class Crowd:
    """Pairs in processes of their own, which end with this one. `rate` logins a second."""

    def __init__(self, users, addresses, every, processes, rate):
        # A forked process would hold the pipes of the others, and not see that this one has ended.
        context = multiprocessing.get_context("spawn")
        self.pipes = []
        for share in range(processes):
            numbers = [number for number in range(users) if number // 2 % processes == share]
            pipe, theirs = context.Pipe()
            context.Process(target=live, args=(theirs, numbers, addresses, every, rate),
                            daemon=True).start()
            theirs.close()
            self.pipes.append(pipe)

    def ask(self, *question):
        try:
            for pipe in self.pipes:
                pipe.send(question)
            return [pipe.recv() for pipe in self.pipes]
        except (EOFError, OSError):
            raise process.Trouble("a process with clients has ended") from None

    def wait(self, seconds, *question):
        """Until a question is answered with no number of a client; the numbers if it is not."""
        end = time.monotonic() + seconds
        while (numbers := sorted(sum(self.ask(*question), []))) and time.monotonic() < end:
            time.sleep(0.2)
        return numbers

    def end(self):
        """All clients, as they were in the end, and the errors of those that failed."""
        answers = self.ask("end")
        clients = [client for found, _ in answers for client in found]
        return (sorted(clients, key=lambda client: client.number),
                [error for _, errors in answers for error in errors])


def live(pipe, *rest):
    # Ctrl-C ends the benchmark, and with it the pipe.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(play(pipe, *rest))


async def play(pipe, numbers, addresses, every, rate):
    clients = {number: chatter.Chatter(number, addresses, every) for number in numbers}
    tasks = [asyncio.create_task(client.run(number / rate)) for number, client in clients.items()]
    while True:
        try:
            question, *rest = await asyncio.to_thread(pipe.recv)
        except EOFError:
            return
        if question == "end":
            break
        pipe.send(ANSWERS[question](clients, *rest))
    errors = await end(clients.values(), tasks)
    pipe.send((list(clients.values()), [repr(error) for error in errors]))


def late(clients, moment):
    """Nothing of theirs was accepted since."""
    return [number for number, client in clients.items()
            if not client.accepted_at or client.accepted_at[-1] <= moment]


def astray(clients):
    """Those who are not at the node that they began at. A few of them go there."""
    found = [client for client in clients.values() if not client.is_up or client.at != client.first]
    for client in [client for client in found if client.is_up and not client.is_leaving][:FEW]:
        client.leave_for(client.first)
    return [client.number for client in found]


def busy(clients):
    """Something that they said is not acknowledged, or they were not told something yet. None says
    anything any more."""
    for client in clients.values():
        client.is_quiet = True
    return [number for number, client in clients.items()
            if client.unacked or len(client.heard) < clients[number ^ 1].accepted]


ANSWERS = {"late": late, "astray": astray, "busy": busy}


async def end(clients, tasks):
    """Ends the clients; the errors of those that failed."""
    for client in clients:
        client.is_over = True
    for task in tasks:
        task.cancel()
    outcome = await asyncio.gather(*tasks, return_exceptions=True)
    return [error for error in outcome if isinstance(error, Exception)]


def faults(clients):
    """What was lost, came twice or out of order; `clients` are all, by number."""
    lost = twice = turned = 0
    for client in clients:
        partner = clients[client.number ^ 1]
        lost += len(set(range(partner.accepted)) - set(client.heard))
        twice += len(client.heard) - len(set(client.heard))
        turned += sum(one > later for one, later in zip(client.heard, client.heard[1:]))
    return {"lost": lost, "twice": twice, "out of order": turned}


def delays(clients, start, end):
    """Of messages that were said, and told to their recipient, in a span."""
    return [delay for client in clients for at, delay in client.delays
            if start < at - delay and at <= end]


def p99(samples):
    ordered = sorted(samples)
    return ordered[int(len(ordered) * 0.99)] * 1e6 if ordered else None
