# SPDX-License-Identifier: Apache-2.0
"""model: a fleet of wsd as a simulation of discrete events.

Senders publish jobs into a stream, nodes ask for jobs and run them, ends come back: each step of wsd-fleet is an event that takes
time of a process. A process does one thing after the other. A process has a machine with a number of CPUs, or all that it needs.
The same seed gives the same run.

One stream and the machines that use it are simulated. Several streams, which wsd-fleet does not have, are as many such fleets."""
import collections
import dataclasses
import heapq
import random

CLASSES = ('hi', 'norm', 'lo')
HI_RESERVE = 4  # daemon/fleet/in.c
ACK_PENDING_MAX = 65536  # of a consumer, as wsd-fleet makes it
WAITING_MAX = 4096
CREDIT = 1024  # jobs that wsd gives to one runner, such as a sender's wsd-fleet


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds of CPU, measured by `tests/bench/run fleet`: the lines cpu=..., divided by hand among the steps."""
    send: float = 15e-6  # a sender, its wsd and wsd-fleet: a job on its way
    receive: float = 12e-6  # and its end
    store: float = 13e-6  # a server: a job stored and acknowledged
    deliver: float = 8e-6  # given to a node
    result: float = 14e-6  # its end stored and sent on
    ack: float = 6e-6  # taken out of the stream
    request: float = 6e-6  # a request for jobs
    take: float = 12e-6  # a node, its wsd and wsd-fleet: a job
    end: float = 12e-6  # and its end
    call: float = 0.3e-6    # what each further call in a message adds to each step of a machine: as in an array
    copy: float = 0.02e-6   # and of a server, which copies its bytes
    link: float = 50e-6     # from one machine to another


@dataclasses.dataclass(frozen=True)
class Setup:
    nodes: int = 2
    senders: int = 1
    rate: float = 1000.0            # jobs a second offered
    seconds: float = 1.0            # so long
    drain: bool = True              # and until all have ended; else what is under way then is left
    run: float = 0.0                # seconds that a job runs, exponentially distributed
    workers: int = 2                # of a node
    held: int = 128                 # K
    calls: int = 1                  # a message
    shares: tuple = (0.1, 0.8, 0.1)  # of the classes
    credit: int = CREDIT
    ack_wait: float = 5.0
    lost: int = 0                   # so many nodes lose their power
    lost_at: float = 0.0
    noticed: float = 240.0          # and the servers notice so much later: ping_interval times ping_max
    box_cpus: int = 0               # all is one machine with so many CPUs, as in the benchmark; 0: each has its own
    seed: int = 1
    costs: Costs = Costs()

    def __post_init__(self):
        if self.held < 4:
            raise ValueError('held: 4 at least: with less, classes take turns of a second, which is not in the model')


class Machine:
    """CPUs that processes share."""
    def __init__(self, cpus):
        self.free = cpus
        self.ready = collections.deque()


class Process:
    """Does one thing after the other."""
    __slots__ = ('loop', 'machine', 'queue', 'active', 'busy')

    def __init__(self, loop, machine):
        self.loop, self.machine = loop, machine
        self.queue = collections.deque()
        self.active = False
        self.busy = 0.0

    def do(self, cost, then, what):
        self.queue.append((cost, then, what))
        if not self.active:
            self.active = True
            self.want()

    def want(self):
        if self.machine is None:
            self.begin()
        elif self.machine.free:
            self.machine.free -= 1
            self.begin()
        else:
            self.machine.ready.append(self)

    def begin(self):
        cost = self.queue[0][0]
        self.busy += cost
        self.loop.after(cost, Process.finish, self)

    def finish(self):
        _, then, what = self.queue.popleft()
        machine = self.machine
        if machine is not None:
            machine.free += 1
            if machine.ready:
                machine.free -= 1
                machine.ready.popleft().begin()
        then(what)
        if self.queue:
            self.want()
        else:
            self.active = False


class Job:
    __slots__ = ('cls', 'born', 'begun', 'sender', 'node', 'delivered', 'state', 'run', 'ends')

    def __init__(self, cls, born, sender, run):
        self.cls, self.born, self.sender, self.run = cls, born, sender, run
        self.begun = None
        self.node = None
        self.delivered = 0
        self.ends = 0
        self.state = 'sent'  # queued, held, ended


class Sender:
    def __init__(self, fleet):
        self.fleet = fleet
        self.process = Process(fleet, fleet.machine)
        self.away = 0
        self.waiting = [collections.deque() for _ in CLASSES]

    def submit(self, job):
        self.waiting[job.cls].append(job)
        self.fill()

    def fill(self):
        f = self.fleet
        while self.away < f.setup.credit:
            queue = next((q for q in self.waiting if q), None)
            if queue is None:
                return
            self.away += 1
            self.process.do(f.cost('send'), f.sent, queue.popleft())

    def received(self, job):
        """The job's one end: a second one is dropped."""
        f = self.fleet
        job.ends += 1
        if job.ends > 1:
            f.doubled += 1
            return
        self.away -= 1
        f.end(job)
        self.fill()


class Node:
    """As daemon/fleet/in.c: a request for each class at a time; those that had jobs lately share what may be held."""
    def __init__(self, fleet):
        self.fleet = fleet
        self.process = Process(fleet, fleet.machine)
        self.asked = [0] * len(CLASSES)
        self.had = [False] * len(CLASSES)
        self.held = self.held_most = 0
        self.free = fleet.setup.workers
        self.ready = [collections.deque() for _ in CLASSES]
        self.dead = False

    def refill(self):
        if self.dead:
            return
        k = self.fleet.setup.held
        used = self.held + sum(self.asked)
        open_classes = [c for c in range(len(CLASSES)) if self.had[c] and not self.asked[c]]
        for at, c in enumerate(open_classes):
            most = k + (HI_RESERVE if c == 0 else 0)
            if used < most:
                n = max((most - used) // (len(open_classes) - at), 1)
                self.ask(c, n)
                used += n
        most_idle = max(k - k // 4, 1)
        idle = sum(a for c, a in enumerate(self.asked) if not self.had[c])
        for c in range(len(CLASSES)):
            if used < k and idle < most_idle and not self.asked[c] and not self.had[c]:
                self.ask(c, 1)
                used += 1
                idle += 1

    def begin(self):
        """The fleet was idle: one request for each class has been sent, and waits where there is room."""
        for c in range(len(CLASSES)):
            if sum(self.asked) < self.fleet.setup.held:
                self.asked[c] = 1
                self.fleet.request([self, c, 1])

    def ask(self, c, n):
        f = self.fleet
        self.asked[c] = n
        f.after(f.setup.costs.link, f.requested, [self, c, n])

    def refused(self, c):
        """Too many nodes wait already."""
        self.asked[c] = 0
        self.refill()

    def came(self, job):
        if self.dead:
            return
        self.asked[job.cls] -= 1
        self.had[job.cls] = True
        self.held += 1
        self.held_most = max(self.held_most, self.held)
        self.process.do(self.fleet.cost('take'), self.taken, job)
        self.refill()

    def taken(self, job):
        if job.state == 'ended':  # its end is stored: it was another node's before
            self.told(job)
            return
        self.ready[job.cls].append(job)
        self.start()

    def start(self):
        while self.free and not self.dead:
            queue = next((q for q in self.ready if q), None)
            if queue is None:
                return
            job = queue.popleft()
            if job.begun is None:
                job.begun = self.fleet.now
            self.free -= 1
            self.fleet.after(job.run * self.fleet.setup.calls, self.ran, job)

    def ran(self, job):
        if self.dead:
            return
        self.free += 1
        self.process.do(self.fleet.cost('end'), self.told, job)
        self.start()

    def told(self, job):
        if not self.dead:
            f = self.fleet
            f.after(f.setup.costs.link, f.end_came, (job, self))

    def stored(self, job):
        """The end is stored: the job is acknowledged."""
        if self.dead:
            return
        self.held -= 1
        f = self.fleet
        f.after(f.setup.costs.link, f.ack_came, job)
        self.refill()


class Fleet:
    """The servers' side, the clock, and what is counted."""
    def __init__(self, setup):
        self.setup = setup
        self.random = random.Random(setup.seed)
        self.now, self.serial, self.events = 0.0, 0, []
        self.machine = Machine(setup.box_cpus) if setup.box_cpus else None
        self.jobs_stream, self.ends_stream = Process(self, self.machine), Process(self, self.machine)
        self.queues = [collections.deque() for _ in CLASSES]
        self.requests = [collections.deque() for _ in CLASSES]
        self.pending = [0] * len(CLASSES)
        self.senders = [Sender(self) for _ in range(setup.senders)]
        self.nodes = [Node(self) for _ in range(setup.nodes)]
        self.jobs = []
        self.under_way = 0
        self.area, self.area_at = 0.0, 0.0
        self.sojourn = 0.0
        self.ended = self.doubled = self.redelivered = self.refusals = self.ended_late = 0
        self.waits = [[] for _ in CLASSES]
        self.times = []  # (end, sojourn) of each

    def cost(self, what):
        c = self.setup.costs
        return getattr(c, what) + (c.copy if what in ('store', 'deliver', 'result') else c.call) * (self.setup.calls - 1)

    # --- the loop

    def after(self, delay, then, what):
        self.serial += 1
        heapq.heappush(self.events, (self.now + delay, self.serial, then, what))

    def go(self):
        s = self.setup
        for node in self.nodes:
            node.begin()
        self.after(self.random.expovariate(s.rate), self.arrive, None)
        if s.lost:
            self.after(s.lost_at, self.lose, s.lost)
        events = self.events
        while events:
            at, _, then, what = heapq.heappop(events)
            if not s.drain and at > s.seconds:
                break
            self.now = at
            then(what)
            if s.drain and self.under_way == 0 and self.now >= s.seconds and not self.arriving:
                break
        return self

    arriving = True

    def count(self, more):
        """Of the jobs under way, over the time: Little's law is checked by it."""
        self.area += self.under_way * (self.now - self.area_at)
        self.area_at = self.now
        self.under_way += more

    def arrive(self, _):
        s = self.setup
        if self.now >= s.seconds:
            self.arriving = False
            return
        cls = self.random.choices(range(len(CLASSES)), s.shares)[0]
        run = self.random.expovariate(1 / s.run) if s.run else 0.0
        job = Job(cls, self.now, self.senders[len(self.jobs) % s.senders], run)
        self.jobs.append(job)
        self.count(1)
        job.sender.submit(job)
        self.after(self.random.expovariate(s.rate), self.arrive, None)

    def end(self, job):
        self.count(-1)
        self.ended += 1
        self.ended_late += self.setup.seconds / 2 < self.now <= self.setup.seconds
        self.sojourn += self.now - job.born
        self.times.append((self.now, self.now - job.born))
        self.waits[job.cls].append(job.begun - job.born)

    # --- the servers

    def sent(self, job):
        self.after(self.setup.costs.link, self.job_came, job)

    def job_came(self, job):
        self.jobs_stream.do(self.cost('store'), self.queue, job)

    def queue(self, job):
        job.state = 'queued'
        self.queues[job.cls].append(job)
        self.pump(job.cls)

    def requested(self, request):
        self.jobs_stream.do(self.setup.costs.request, self.request, request)

    def request(self, request):
        node, c, _ = request
        if len(self.requests[c]) >= WAITING_MAX:
            self.refusals += 1
            self.after(self.setup.costs.link, node.refused, c)
            return
        self.requests[c].append(request)
        self.pump(c)

    def pump(self, c):
        """The nodes that wait are served in turn."""
        queue, requests = self.queues[c], self.requests[c]
        while queue and requests and self.pending[c] < ACK_PENDING_MAX:
            job, request = queue.popleft(), requests.popleft()
            request[2] -= 1
            if request[2]:
                requests.append(request)
            self.pending[c] += 1
            job.delivered += 1
            job.node = request[0]
            if job.state != 'ended':
                job.state = 'held'
            self.jobs_stream.do(self.cost('deliver'), self.delivered, job)

    def delivered(self, job):
        node = job.node
        if node.dead:  # the server does not know yet
            self.after(self.setup.ack_wait, self.again, job)
        else:
            self.after(self.setup.costs.link, node.came, job)

    def end_came(self, what):
        self.ends_stream.do(self.cost('result'), self.end_stored, what)

    def end_stored(self, what):
        job, node = what
        first = job.state != 'ended'
        job.state = 'ended'
        if first:
            self.after(self.setup.costs.link, self.end_comes, job)
        self.after(self.setup.costs.link, node.stored, job)

    def end_comes(self, job):
        job.sender.process.do(self.cost('receive'), job.sender.received, job)

    def ack_came(self, job):
        self.jobs_stream.do(self.setup.costs.ack, self.acked, job)

    def acked(self, job):
        self.pending[job.cls] -= 1
        self.pump(job.cls)

    # --- faults

    def lose(self, n):
        """The server last heard of each job within a third of its patience."""
        s = self.setup
        lost = set(self.nodes[:n])
        for node in lost:
            node.dead = True
        self.after(s.noticed, self.notice, lost)
        for job in self.jobs:
            if job.node in lost and job.state == 'held':
                self.after(s.ack_wait * (1 - self.random.random() / 3), self.again, job)

    def notice(self, lost):
        """Their requests go with their connections."""
        self.requests = [collections.deque(r for r in queue if r[0] not in lost) for queue in self.requests]

    def again(self, job):
        if job.state == 'ended':
            return
        self.redelivered += 1
        self.pending[job.cls] -= 1
        self.queues[job.cls].appendleft(job)
        self.pump(job.cls)

    # --- what is told

    def load(self):
        """The share of the time that each kind of process was busy: what is near 1 limits the rest."""
        span = self.now or 1.0
        s = self.setup
        return {'server, jobs': self.jobs_stream.busy / span,
                'server, ends': self.ends_stream.busy / span,
                'sender': sum(x.process.busy for x in self.senders) / span / s.senders,
                'node': sum(x.process.busy for x in self.nodes) / span / s.nodes,
                'workers': sum(j.run * s.calls for j in self.jobs if j.ends) / span / s.nodes / s.workers,
                'credit': self.sojourn_away() / span}

    def sojourn_away(self):
        """How full the senders' allowance is, by the jobs that are under way at the end or were, on average."""
        full = sum(1 for x in self.senders if x.away >= self.setup.credit)
        return full / self.setup.senders * self.now

    def rate(self):
        """Calls a second that have ended, in the second half of the time in which jobs were offered."""
        return self.ended_late * self.setup.calls / (self.setup.seconds / 2)


def quantile(values, q):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * q), len(ordered) - 1)] if ordered else 0.0


def simulate(**how):
    return Fleet(Setup(**how)).go()
