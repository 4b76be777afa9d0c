"""`Child`: one model's engine process through all its lives; the state machine that alone decides what it does."""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from blazar.errors import BlazarError, LoadFailed, ShuttingDown
from blazar.planner.need import Offer
from blazar.planner.room import Held
from blazar.supervisor import processes, spawn
from blazar.supervisor.banks import blamed
from blazar.supervisor.failures import load_failure, port_was_the_trouble
from blazar.supervisor.health import Ready, Target
from blazar.supervisor.means import Means, Prepared, Waiter, Weighed
from blazar.supervisor.peg import peg
from blazar.supervisor.policies import warm_peg
from blazar.supervisor.sessions import SAVE_LIMIT, arrive, save
from blazar.supervisor.states import ALLOWED, LIVE, State
from blazar.transport import ROUTER, Address, Endpoint, model_at, runs

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
STOP_GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL."""
STEADY = 60.0
"""Seconds of service after which earlier crashes are forgotten."""
LONGEST_BACKOFF = 60.0
WORTH_WAITING = 5.0
"""A request waits this long for the back-off to end; beyond it is told when to come back."""
PORT_TRIES = 3


class Child:
    """`ended` is told of each end of its process, or of the attempt to start one."""

    def __init__(self, place: str, means: Means, keep_alive: float, ended: Callable[["Child"], None]) -> None:
        self.place = place
        """Its model's name; further children of the same model have a number behind it."""
        self.model = model_at(place)
        self.state = State.ABSENT
        self.endpoint: Endpoint | None = None
        self.ready_at = self._spawned_at = 0.0
        self.asked_at = 0.0
        self.not_before = 0.0
        self.keep_alive = keep_alive
        self._default_keep_alive = keep_alive
        self.generation = 0
        self.outdated = False
        """Whether the store has another file under its model's name by now, or none; or nobody can reach it."""
        self._means = means
        self._ended = ended
        self._waiters: list[Waiter] = []
        self._when_absent: list[Callable[[], None]] = []
        self._process: spawn.Process | None = None
        self.weighed: Weighed | None = None
        """What is known of its model; of one that is queued only after a moment."""
        self._offer: Offer | None = None
        self._weighings = 0
        self._prepared: Prepared | None = None
        self._secret: str | None = None
        self._arrived: tuple[Target, Ready] | None = None
        """How its process is spoken to, once it serves."""
        self.is_spare = False
        """Whether it was asked for ahead of any request, and nobody waits for it yet."""
        self.saved_at = 0.0
        self._saving = False
        """Whether its process lives only until its slots are saved."""
        self._tries = 0
        self._crashes = 0
        self._last_failure: BlazarError | None = None
        self._why: BlazarError | None = None
        """Why the load that is being stopped has failed."""

    @property
    def id(self) -> str:
        return f"{self.place}#{self.generation}"

    @property
    def replica(self) -> str:
        """Which of its model's children it is, from 1 on."""
        return self.place.partition(" ")[2] or "1"

    @property
    def names(self) -> dict[str, str]:
        """How events call it."""
        return {"model": self.model, "replica": self.replica, "child_id": self.id}

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def held(self) -> Held:
        """What of each memory it has, or will when it is loaded."""
        return self._offer.held if self._offer is not None and self.state in LIVE else Held()

    @property
    def prepared(self) -> Prepared | None:
        """What its process was started with; None before that is known."""
        return self._prepared

    @property
    def sleeps_after(self) -> float:
        """Seconds without a request after which its engine forgets the slots that are to be saved; 0 = never."""
        if self._prepared is None or self._prepared.bank is None:
            return 0.0
        return float(self._prepared.launch.settings.get("idle_sleep_secs") or 0)

    @property
    def serves(self) -> Mapping[str, Prepared]:
        """The models of a router."""
        return self._prepared.serves if self._prepared else {}

    @property
    def models(self) -> Collection[str]:
        """The models that it serves."""
        return self.serves or (self.model,)

    @property
    def lease_ids(self) -> list[str]:
        """Under which ids the gateway leases it: a router's models each have one."""
        return [self.lease_id(model) for model in self.models]

    def lease_id(self, model: str) -> str:
        return f"{self.id}/{model}" if self.place == ROUTER else self.id

    def endpoints(self) -> dict[str, Endpoint]:
        """Where what it serves is reached, by place; empty unless it is ready."""
        return self.reached() if self.state is State.READY else {}

    def reached(self) -> dict[str, Endpoint]:
        """The same while its requests end, too."""
        if self.state not in (State.READY, State.DRAINING) or self.endpoint is None:
            return {}
        if self.place != ROUTER:
            return {self.place: self.endpoint}
        return {model: replace(self.endpoint, child_id=self.lease_id(model), model=model, slots=one.command.slots,
                               ctx=one.command.ctx, size=one.taken, size_vram=one.on_cards,
                               projector=one.command.projector)
                for model, one in self.serves.items()}

    # -- asked by the fleet ------------------------------------------------------------------------------

    def ensure_ready(self, waiter: Waiter, is_spare: bool = False) -> None:
        """Call `waiter` with the endpoint once the child serves, or with the reason why it will not.

        A child that `is_spare` makes no other one go.
        """
        if self.state is State.READY and runs(self.pid) and processes.is_alive(self.pid):
            waiter(self.endpoint, None)
            return
        now = self._means.loop.now()
        wait = self.not_before - now
        if self.state is State.ABSENT and wait > WORTH_WAITING:
            waiter(None, self._held_back(wait))
            return
        self.is_spare = is_spare and (self.is_spare or not self._waiters)
        self._waiters.append(waiter)  # of a child that has died unnoticed yet, too: it is told within milliseconds
        if self.state is State.ABSENT:
            self._queue()

    def _queue(self) -> None:
        self.asked_at = self._means.loop.now()
        self._enter(State.QUEUED)
        self._weigh()

    def _weigh(self) -> None:
        self.weighed = None
        self._weighings += 1
        number = self._weighings
        self._means.pool.submit(lambda weighed, error: self._on_weighed(number, weighed, error),
                                self._means.weigh, self.place)

    def reconsider(self) -> None:
        """Something has changed of what it would be loaded with: what it needs is looked at again, while it waits."""
        if self.state is State.QUEUED:
            self._weigh()

    def start(self, offer: Offer) -> None:
        """Load it as planned."""
        assert self.weighed is not None
        self.generation += 1
        self.keep_alive = self._default_keep_alive
        self.outdated = False
        self._prepared = None
        self._offer = offer
        self._tries = 0
        self._why = None
        self._enter(State.STARTING)
        generation = self.generation
        self._means.pool.submit(lambda prepared, error: self._on_prepared(generation, prepared, error),
                                self.weighed.prepare, offer.plan)

    def keep_for(self, seconds: float) -> None:
        self.keep_alive = seconds
        if self.endpoint is not None:
            self.endpoint = replace(self.endpoint, keep_alive=seconds)

    def take(self, default_keep_alive: float) -> None:
        """How long it stays where nobody says otherwise."""
        if self.keep_alive == self._default_keep_alive:
            self.keep_for(default_keep_alive)
        self._default_keep_alive = default_keep_alive

    def compare(self, digest: str | None) -> None:
        """`digest` is the file that the store has under the model's name."""
        if self._prepared is not None and self._prepared.launch.facts["digest"] != digest:
            self.outdated = True
        elif self.state is State.QUEUED and self.weighed is not None and self.weighed.digest != digest:
            self._weigh()

    def look(self) -> None:
        """Whether it can be reached at all: nobody finds a child whose socket was removed, so another has to come."""
        address = self.endpoint.address if self.endpoint is not None and self.state is State.READY else None
        if isinstance(address, str) and not self.outdated and not Path(address).exists():
            log.warning("%s: its socket %s was removed; it is started anew when it is asked for", self.id, address)
            self.outdated = True

    def forgive(self) -> None:
        """Something has changed that may make the next load succeed: it is tried without waiting."""
        if self.state is State.ABSENT:
            self.not_before, self._crashes = 0.0, 0

    def drain(self) -> None:
        self._enter(State.DRAINING)

    def stop(self, why: BlazarError | None = None, saving: float = SAVE_LIMIT) -> None:
        """End the process, by force after a while; a load under way fails with `why`.

        Before that, one that serves has `saving` seconds for saving its slots.
        """
        if self.state in (State.ABSENT, State.STOPPING) or self._saving:
            return
        self._why = why
        if self._process is None:
            self._gone()
        elif saving > 0 and not self.outdated and self._save(self._terminate, saving):
            self._saving = True
            self._means.loop.later(saving, self._terminate, self._process)
            if self.state is State.READY:
                self._enter(State.DRAINING)
        else:
            self._terminate(self._process)

    def put_down(self) -> None:
        """End the process at once: it is wedged, so nothing it has or does is worth waiting for."""
        if self._process is not None and self.state in (State.READY, State.DRAINING):
            self._enter(State.STOPPING)
            self._process.kill()

    def save(self) -> None:
        """Save the slots beside its work."""
        self.saved_at = self._means.loop.now()
        self._save(lambda _: None, SAVE_LIMIT)

    def _save(self, then: Callable[[spawn.Process], None], limit: float) -> bool:
        """Begin to save the slots, if there are any to save; `then` follows when that has ended in whatever way."""
        bank = self._prepared.bank if self._prepared else None
        if bank is None or self._arrived is None:
            return False
        target, ready = self._arrived
        self._means.pool.submit(lambda *_: then(target.process), save, bank, target, ready, limit)
        return True

    def _terminate(self, process: spawn.Process) -> None:
        """What ends first, the saving or its time, comes here, and then the other."""
        if process is not self._process or self.state is State.STOPPING:
            return
        self._enter(State.STOPPING)
        process.terminate()
        self._means.loop.later(STOP_GRACE, process.kill)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()

    def when_absent(self, call: Callable[[], None]) -> None:
        """Call once there is no process any more; at once when there is none."""
        if self.state is State.ABSENT:
            call()
        else:
            self._when_absent.append(call)

    def refuse_waiters(self, error: BlazarError) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(None, error)

    # -- what happens to it ------------------------------------------------------------------------------

    def _on_weighed(self, number: int, weighed: Weighed | None, error: BlazarError | None) -> None:
        if self.state is not State.QUEUED or number != self._weighings:
            return
        if error is not None:
            self.stop(error)
        else:
            self.weighed = weighed
            self._means.changed()

    def _on_prepared(self, generation: int, prepared: Prepared | None, error: BlazarError | None) -> None:
        if self.state is not State.STARTING or generation != self.generation:
            return
        if error is not None or prepared is None:
            self._why = error
            self._gone()
            return
        self._prepared = prepared
        self._spawn(picks_port=prepared.launch.program.picks_port)

    def _spawn(self, picks_port: bool) -> None:
        assert self._prepared is not None
        launch, lane, command = self._prepared.launch, self._prepared.lane, self._prepared.command
        files = [file for file in (launch.secret_file, self._prepared.socket) if file]
        loop = self._means.loop
        self._tries += 1
        try:
            address = self._address(picks_port)
            self._secret = spawn.write_secret(launch.secret_file) if launch.secret_file else None
            process = spawn.spawn([*command.argv, *lane.address_flags(address)], self.place, self._means.paths,
                                  lambda ended: loop.post(self._on_exit, ended), command.env, files=files)
        except OSError as error:
            self._why = LoadFailed(model=self.model, reason=f"cannot start it: {error}", output="")
            self._gone()
            return
        self._process = process
        self._spawned_at = loop.now()
        self._means.publish("model_loading", **self.names, pid=process.pid)
        log.info("%s: started pid %d: %s", self.id, process.pid, " ".join(command.argv))
        target = Target(self.model, process, address, self._secret, lane.health_path, self._prepared.limit)
        self._means.pool.submit(lambda ready, error: self._on_probed(target, ready, error),
                                arrive, target, self._prepared.bank)

    def _address(self, picks_port: bool) -> Address:
        """Where the child is told to listen. Raises OSError."""
        assert self._prepared is not None
        if self._prepared.socket is None:
            return HOST, 0 if picks_port else spawn.free_port(HOST)
        self._prepared.socket.unlink(missing_ok=True)
        return str(self._prepared.socket)

    def _on_probed(self, target: Target, ready: Ready | None, error: BlazarError | None) -> None:
        if target.process is not self._process or self.state is not State.STARTING:
            return
        if error is not None:
            self._why = error
            target.process.kill()
        elif ready is not None:
            self._serve(target, ready)

    def _serve(self, target: Target, ready: Ready) -> None:
        assert self._prepared is not None
        planned = self._prepared.command
        self._arrived = target, ready
        self.ready_at = self._means.loop.now()
        self.endpoint = Endpoint(
            child_id=self.id, model=self.model, address=ready.address, secret=self._secret,
            lane=self._prepared.lane.kind, pid=target.process.pid, slots=ready.slots or planned.slots,
            ctx=ready.ctx or planned.ctx, size=self._prepared.taken, size_vram=self._prepared.on_cards,
            keep_alive=self.keep_alive, ready_at=self.ready_at, projector=planned.projector)
        log.info("%s: ready on %s", self.id, ready.address)
        self._enter(State.READY)
        self._means.publish("model_ready", **self.names, pid=target.process.pid, slots=self.endpoint.slots,
                            ctx=self.endpoint.ctx, load_secs=round(self.ready_at - self._spawned_at, 3))
        if self._crashes:
            self._means.publish("child_restarted", **self.names)
        launch = self._prepared.launch
        if warm_peg.decide(self._prepared.lane.kind, launch.settings["warm_peg"], launch.facts["capabilities"],
                           is_awaited=not self.is_spare, restored=ready.restored):
            self._means.pool.submit(lambda *_: None, peg, target, ready)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter(self.endpoint, None)

    def _on_exit(self, process: spawn.Process) -> None:
        if process is not self._process:
            return
        self._process = self._arrived = None
        saved, self._saving = self._saving, False
        if self.state is State.STOPPING or saved:
            self._crashes = 0
            log.info("%s: stopped", self.id)
            self._means.publish("model_unloaded", **self.names)
        elif self.state is State.STARTING and (self._retries_without_bank() or self._retries_elsewhere(process)):
            return
        else:
            self._crashed(process)
        self._gone()

    def _retries_without_bank(self) -> bool:
        """Whether it died of the slots it was given, and was started again without them."""
        assert self._prepared is not None
        if self._why is not None or not blamed(self._prepared.bank):
            return False
        log.warning("%s: the engine ended when it was given its saved conversations; they go", self.id)
        self._spawn(picks_port=self._prepared.launch.program.picks_port)
        return True

    def _retries_elsewhere(self, process: spawn.Process) -> bool:
        """Whether it died for want of a port, and was started again with another one."""
        if self._why is not None or self._tries >= PORT_TRIES or not port_was_the_trouble(process.last_lines()):
            return False
        log.warning("%s: could not listen, trying another port", self.id)
        self._spawn(picks_port=False)
        return True

    def _crashed(self, process: spawn.Process) -> None:
        assert self._prepared is not None
        failure = self._why
        if failure is None or isinstance(failure, LoadFailed):
            failure = load_failure(self._prepared.launch, self._prepared.command, self._prepared.fork, process, failure)
        log.error("%s: %s", self.id, failure.message)
        now = self._means.loop.now()
        if self.state is State.STARTING:
            self._why = failure
        elif now - self.ready_at >= STEADY:
            self._crashes = 0
        self._crashes += 1
        self.not_before = now + min(LONGEST_BACKOFF, 2.0 ** (self._crashes - 1))
        self._last_failure = failure
        if self.state is not State.STARTING:
            self._means.publish("child_died", **self.names, message=failure.message,
                                retry_secs=self.not_before - now)

    def _held_back(self, wait: float) -> BlazarError:
        return LoadFailed(f"{self._last_failure}; it is tried again in {wait:.0f} s", retry_after=wait)

    def _gone(self) -> None:
        """No process any more: fail or requeue who waits, and tell who waited for the end."""
        self.endpoint = None
        self._ended(self)
        self._enter(State.ABSENT)
        if self._why is not None:
            error, self._why = self._why, None
            if not isinstance(error, ShuttingDown):
                self._means.publish("model_failed", **self.names, error=error.slug, message=error.message)
            self.refuse_waiters(error)
        told, self._when_absent = self._when_absent, []
        for call in told:
            call()
        if self._waiters and self.state is State.ABSENT:
            self._queue()

    def _enter(self, state: State) -> None:
        assert state in ALLOWED[self.state], f"{self.id}: {self.state} -> {state}"
        self.state = state
        self._means.changed()
