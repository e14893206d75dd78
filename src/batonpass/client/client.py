"""One sender for every call: the token, timeouts, bounded retries, and errors as the classes the server raised.

What is tried again, and nothing else is:

* what never reached the server (no connection), and what it answered with
  429 or with a 503 of its own, for then nothing was changed;
* what may have reached it (the answer was lost, or a proxy answered in its
  place), if the call says that sending it again changes nothing more.

Otherwise a lost answer of a write is raised as `Unknown`: read before
repeating. Between tries the sender sleeps, with full jitter, as long as the
server asked for if that is within reason.
"""

from __future__ import annotations

import functools
import random
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, assert_never
from urllib.parse import urlsplit

import httpx
import msgspec

from batonpass import __version__
from batonpass.client import (
    capability_calls,
    class_calls,
    digest_calls,
    feed_calls,
    graph_calls,
    identity_calls,
    key_calls,
    lease_calls,
    node_calls,
    question_calls,
    queue_calls,
    run_calls,
    server_calls,
    token_calls,
)
from batonpass.client.calls import Call, Repeat
from batonpass.core.errors import BatonError, Invalid, Unavailable, Unknown
from batonpass.core.ids import Fence, NodeId
from batonpass.core.records import RecordPath
from batonpass.wire.errors import error_of

if TYPE_CHECKING:
    from batonpass.client.heartbeat import Lost
    from batonpass.client.lease import HeldLease
    from batonpass.client.records import Records
    from batonpass.client.task import HeldTask

P = ParamSpec("P")
T = TypeVar("T")

USER_AGENT: Final = f"batonpass/{__version__}"
CONNECT_S_MAX: Final = 5.0
"""A server that does not even accept within this is treated as not there."""
SEND_S_MAX: Final = 15.0
"""Longest pause while a body of at most 1 MB is on its way out."""
TRIES_MAX: Final = 5
"""How often one call is sent: with the pauses below some ten seconds of a server that restarts."""
PAUSE_S: Final = 0.25
"""Longest first pause; each further one may be twice as long."""
PAUSE_S_MAX: Final = 5.0
RETRY_AFTER_S_MAX: Final = 20.0
"""A server that asks for more is not waited for: the caller decides what to do meanwhile."""
WORDS_SHOWN_MAX: Final = 200
"""How much of a body that is not ours a message may quote, in characters."""
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A 2xx answer: its value, and the bytes it came as, for who passes them on whole."""

    value: T
    raw: bytes
    replayed: bool = False
    """Whether an idempotency key brought a stored answer back (D11)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The server has answered no. Asking again would be answered the same."""

    error: BatonError


@dataclass(frozen=True, slots=True)
class NotDone:
    """Not now, and nothing was changed. `after_s` is how long the server asks to be left alone, if it did."""

    error: BatonError
    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unsure:
    """The answer is lost: the request may or may not have been carried out."""

    error: BatonError


@dataclass(frozen=True, slots=True)
class Patience:
    """How often to try, and how long to pause in between. Tests inject `sleep` and `jitter`."""

    tries_max: int = TRIES_MAX
    pause_s: float = PAUSE_S
    pause_s_max: float = PAUSE_S_MAX
    retry_after_s_max: float = RETRY_AFTER_S_MAX
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def pauses(self) -> Iterator[float]:
        """Return the pause before each further try, in seconds: full jitter under a doubling ceiling."""
        ceiling = self.pause_s
        for _ in range(self.tries_max - 1):
            yield self.jitter() * ceiling
            ceiling = min(2 * ceiling, self.pause_s_max)

    def rest(self) -> None:
        """Pause as long as it gets, more or less: for who goes on trying however long the server is away."""
        self.sleep(self.pause_s_max * (0.5 + self.jitter() / 2))


ONCE: Final = Patience(tries_max=1)
"""One try: for callers that have a loop of their own, as the heartbeat has."""


def _sending(make: Callable[P, Call[T]]) -> Callable[Concatenate[Client, P], T]:
    """Return `make` as a method that sends the call it makes: same arguments, same words, the answer's value."""

    @functools.wraps(make)
    def method(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.send(make(*args, **kwargs))

    return method


class Client:
    """Speaks to one server under one token. Safe to use from several threads; close it when done.

    `transport` replaces the network (in-process server, tests) and then stays
    its owner's to close. Every call is also a method; those about records are methods of `records`.
    """

    def __init__(
        self,
        server: str,
        token: str | None,
        *,
        transport: httpx.BaseTransport | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.server = server.rstrip("/")
        self.patience = patience or Patience()
        self.fences: tuple[Fence, ...] = ()
        self._token = token
        self._transport = transport
        self._http = _http(self.server, transport)

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections; safe twice. A transport that was passed in stays open."""
        if self._transport is None:
            self._http.close()

    def sibling(self, *, patience: Patience | None = None) -> Client:
        """Return a client of the same server and token with connections of its own, for another thread; close it."""
        return Client(self.server, self._token, transport=self._transport, patience=patience or self.patience)

    def under(self, *fences: Fence) -> Client:
        """Return this client, on these connections, with `fences` riding on every write as If-Lease headers (D2a)."""
        fenced = copy(self)
        fenced.fences = (*self.fences, *fences)
        return fenced

    def send(self, call: Call[T], *, patience: Patience | None = None, key: str | None = None) -> T:
        """Return the answer's value; every failure is raised as a class of `core.errors`.

        `key` is the Idempotency-Key of a change that the caller itself may
        come back to after a crash; without it each call gets one of its own.
        """
        return self.answer(call, patience=patience, key=key).value

    def answer(self, call: Call[T], *, patience: Patience | None = None, key: str | None = None) -> Answer[T]:
        """Return the answer with its bytes; `send` says the rest."""
        request = self._request(call, key=key)
        return self._persist(call, lambda: self._send_once(call, request), patience or self.patience)

    @contextmanager
    def stream(self, call: Call[bytes]) -> Iterator[httpx.Response]:
        """Ask for something long, and return its answer as it begins; what breaks off in its middle is `Unavailable`.

        Until it begins, it is asked for as often as any other call; after that nothing is repeated.
        """
        request = self._request(call, key=None)
        response = self._persist(call, lambda: self._begin_once(call, request), self.patience).value
        try:
            yield response
        except httpx.HTTPError as error:
            raise self._lost(call, f"broke off: {_words(error)}") from error
        finally:
            response.close()

    def _persist(
        self, call: Call[object], once: Callable[[], Answer[T] | Refused | NotDone | Unsure], patience: Patience
    ) -> Answer[T]:
        """Try `once`, and again as long as `patience` and what the call allows say so."""
        pauses = patience.pauses()
        while True:
            outcome = once()
            match outcome:
                case Answer():
                    return outcome
                case Refused():
                    raise outcome.error
                case NotDone(after_s=after_s):
                    again = after_s is None or after_s <= patience.retry_after_s_max
                case Unsure():
                    after_s, again = None, call.repeat is not Repeat.NEVER
                case _:
                    assert_never(outcome)
            pause = next(pauses, None)
            if pause is None or not again:
                raise outcome.error
            patience.sleep(pause if after_s is None else max(pause, after_s))

    def _request(self, call: Call[T], *, key: str | None) -> httpx.Request:
        headers = [("Accept", "application/json")]
        if self._token is not None:
            headers.append(("Authorization", f"Bearer {self._token}"))
        if call.body is not None:
            headers.append(("Content-Type", "application/json"))
        if call.method != "GET":
            headers += [("If-Lease", str(fence)) for fence in self.fences]
        if call.repeat is Repeat.KEYED or key is not None:
            headers.append(("Idempotency-Key", key or uuid.uuid4().hex))
        connect_s_max = min(CONNECT_S_MAX, call.answer_s_max)
        timeout = httpx.Timeout(call.answer_s_max, connect=connect_s_max, write=SEND_S_MAX, pool=connect_s_max)
        try:
            return self._http.build_request(
                call.method, call.path, params=call.query or None, headers=headers, content=call.body, timeout=timeout
            )
        except httpx.InvalidURL as error:
            raise Invalid(f"{call.method} {call.path[:80]}: not sent: {error}") from error

    def _send_once(self, call: Call[T], request: httpx.Request) -> Answer[T] | Refused | NotDone | Unsure:
        response = self._sent(call, request)
        if isinstance(response, httpx.Response):
            return self._decoded(call, response) if response.is_success else self._refusal(call, response)
        return response

    def _begin_once(
        self, call: Call[bytes], request: httpx.Request
    ) -> Answer[httpx.Response] | Refused | NotDone | Unsure:
        response = self._sent(call, request, stream=True)
        if not isinstance(response, httpx.Response):
            return response
        if response.is_success:
            return Answer(response, b"")
        try:
            response.read()
        except httpx.HTTPError as error:
            return Unsure(self._lost(call, _words(error)))
        return self._refusal(call, response)

    def _sent(
        self, call: Call[object], request: httpx.Request, *, stream: bool = False
    ) -> httpx.Response | NotDone | Unsure:
        try:
            return self._http.send(request, stream=stream)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            return NotDone(Unavailable(f"cannot reach the server at {self.server}: {_words(error)}"))
        except httpx.HTTPError as error:
            return Unsure(self._lost(call, _words(error)))

    def _decoded(self, call: Call[T], response: httpx.Response) -> Answer[T] | Unsure:
        try:
            value = msgspec.json.decode(response.content, type=call.reply)
        except msgspec.MsgspecError as error:
            return Unsure(self._lost(call, f"HTTP {response.status_code} is not an answer of ours ({error})"))
        return Answer(value, response.content, replayed="Idempotency-Replayed" in response.headers)

    def _refusal(self, call: Call[object], response: httpx.Response) -> Refused | NotDone | Unsure:
        if response.has_redirect_location:
            target = response.headers["Location"][:WORDS_SHOWN_MAX]
            return Refused(Unavailable(f"the server at {self.server} has moved to {target}; configure that address"))
        after_s = _seconds(response.headers.get("Retry-After"))
        error = error_of(response.status_code, response.content, retry_after_s=int(after_s or 1))
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            return NotDone(error, after_s)
        if not isinstance(error, Unavailable):
            return Refused(error)
        if isinstance(error, Unknown):
            return Unsure(error)
        if error.is_ours:
            return NotDone(error, after_s)
        return Unsure(self._lost(call, error.message))

    def _lost(self, call: Call[object], why: str) -> Unavailable:
        """Return the error for a lost answer: of a read nothing but time is lost, of a write its outcome."""
        if call.method == "GET":
            return Unavailable(f"no answer from the server at {self.server}: {why}")
        return Unknown(
            f"no answer from the server at {self.server} ({why}); the change may or may not have been made:"
            " look before you repeat it"
        )

    # --- leases ------------------------------------------------------------------------------------------------------

    def lease(
        self,
        node: NodeId,
        *,
        session: str | None = None,
        dispatch: str | None = None,
        on_lost: Callable[[Lost], None] | None = None,
    ) -> AbstractContextManager[HeldLease]:
        """Hold `node` for a `with` block: claim it, keep it alive, hand it back."""
        from batonpass.client.lease import held

        return held(self, node, session=session, dispatch=dispatch, on_lost=on_lost)

    claim = _sending(lease_calls.claim)
    take = _sending(lease_calls.take)
    renew = _sending(lease_calls.renew)
    extend = _sending(lease_calls.extend)
    reserve = _sending(lease_calls.reserve)
    release = _sending(lease_calls.release)
    claim_many = _sending(lease_calls.claim_many)
    renew_many = _sending(lease_calls.renew_many)
    renew_held = _sending(lease_calls.renew_held)
    release_held = _sending(lease_calls.release_held)
    leases = _sending(lease_calls.leases)

    # --- records -----------------------------------------------------------------------------------------------------

    @property
    def records(self) -> Records:
        """Return the calls about records, as methods."""
        from batonpass.client.records import Records

        return Records(self)

    def task(
        self,
        record: RecordPath | str,
        field: str,
        *,
        lease_s: int | None = None,
        checkpoint: str | None = None,
        on_lost: Callable[[Lost], None] | None = None,
    ) -> AbstractContextManager[HeldTask]:
        """Hold a record's task for a `with` block: claim it, keep it alive, write under it, hand it back."""
        from batonpass.client.task import held

        return held(self, record, field, lease_s=lease_s, checkpoint=checkpoint, on_lost=on_lost)

    put_class = _sending(class_calls.put_class)
    get_class = _sending(class_calls.get_class)
    list_classes = _sending(class_calls.list_classes)

    # --- queue, nodes, edges -----------------------------------------------------------------------------------------

    queue = _sending(queue_calls.queue_page)
    next = _sending(queue_calls.next_item)
    node = _sending(node_calls.node)
    why = _sending(node_calls.why)
    compile_digest = _sending(digest_calls.compile_digest)
    briefing = _sending(digest_calls.briefing)
    list_nodes = _sending(node_calls.list_nodes)
    put_nodes = _sending(node_calls.put_nodes)
    edges = _sending(node_calls.edges)
    add_edge = _sending(node_calls.add_edge)
    remove_edge = _sending(node_calls.remove_edge)
    set_status = _sending(node_calls.set_status)
    set_priority = _sending(node_calls.set_priority)
    set_readiness = _sending(node_calls.set_readiness)
    add_commit = _sending(node_calls.add_commit)
    read_nodes = _sending(graph_calls.read_nodes)
    add_live_edge = _sending(graph_calls.add_live_edge)
    history = _sending(graph_calls.history_of)
    revision = _sending(graph_calls.revision)
    redact = _sending(graph_calls.redact)
    delete = _sending(graph_calls.delete)
    nodes_with_commit = _sending(graph_calls.nodes_with_commit)
    schema = _sending(graph_calls.get_schema)

    # --- questions, corrections, captures ----------------------------------------------------------------------------

    ask_question = _sending(question_calls.ask_question)
    answer_question = _sending(question_calls.answer_question)
    correct = _sending(question_calls.correct)
    list_corrections = _sending(question_calls.list_corrections)
    capture = _sending(question_calls.capture)
    inbox = _sending(question_calls.inbox)

    # --- people, agents, tokens, the server --------------------------------------------------------------------------

    me = _sending(identity_calls.me)
    add_person = _sending(identity_calls.add_person)
    people = _sending(identity_calls.people)
    add_agent = _sending(identity_calls.add_agent)
    agents = _sending(identity_calls.agents)
    bind_session = _sending(identity_calls.bind_session)
    mint_session_token = _sending(token_calls.mint_session_token)
    mint_run_token = _sending(token_calls.mint_run_token)
    mint_standing_token = _sending(token_calls.mint_standing_token)
    agent_tokens = _sending(token_calls.agent_tokens)
    revoke_agent_token = _sending(token_calls.revoke_agent_token)
    mint_token = _sending(token_calls.mint_token)
    my_tokens = _sending(token_calls.my_tokens)
    tokens_of = _sending(token_calls.tokens_of)
    revoke_token = _sending(token_calls.revoke_token)
    mint_key = _sending(key_calls.mint_key)
    list_keys = _sending(key_calls.list_keys)
    revoke_key = _sending(key_calls.revoke_key)
    status = _sending(server_calls.server_status)
    search = _sending(server_calls.search_nodes)
    get_policy = _sending(server_calls.get_policy)
    put_policy = _sending(server_calls.put_policy)
    events = _sending(feed_calls.get_events)
    changes = _sending(feed_calls.get_changes)

    # --- the fleet ---------------------------------------------------------------------------------------------------

    put_run = _sending(run_calls.put_run)
    put_run_log = _sending(run_calls.put_run_log)
    list_runs = _sending(run_calls.list_runs)
    get_run = _sending(run_calls.get_run)
    get_run_log = _sending(run_calls.get_run_log)
    publish_capabilities = _sending(capability_calls.publish_capabilities)
    get_capabilities = _sending(capability_calls.get_capabilities)
    beat = _sending(capability_calls.beat)
    profile_hosts = _sending(capability_calls.profile_hosts)


def _http(server: str, transport: httpx.BaseTransport | None) -> httpx.Client:
    """Return the connections to `server`. Redirects are not followed: the token would go along."""
    parts = urlsplit(server)
    return httpx.Client(
        base_url=server,
        headers={"User-Agent": USER_AGENT},
        transport=transport,
        # A certificate store takes 40 ms to load, and is of no use to plain http.
        verify=parts.scheme == "https",
        # A proxy for the world is not one for this machine.
        trust_env=parts.hostname not in LOOPBACK,
    )


def _seconds(retry_after: str | None) -> float | None:
    """Return what a Retry-After header asks for; the form with a date needs a clock we agree on, and is passed over."""
    return float(retry_after) if retry_after is not None and retry_after.isascii() and retry_after.isdigit() else None


def _words(error: httpx.HTTPError) -> str:
    return (str(error) or type(error).__name__)[:WORDS_SHOWN_MAX]
