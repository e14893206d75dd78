"""The whole URL table on one screen. Hot routes first: the router tries them in order."""

from __future__ import annotations

from starlette.routing import Route

from batonpass.server.http import health, leases, policy, queue
from batonpass.server.http.call import endpoint
from batonpass.wire import paths

ROUTES: list[Route] = [
    Route(paths.CLAIM, endpoint(leases.claim), methods=["POST"]),
    Route(paths.RENEW, endpoint(leases.renew), methods=["POST"]),
    Route(paths.QUEUE_RENEW, endpoint(leases.renew_many), methods=["POST"]),
    Route(paths.QUEUE_NEXT, endpoint(queue.take_next), methods=["POST"]),
    Route(paths.RELEASE, endpoint(leases.release), methods=["POST"]),
    Route(paths.EXTEND, endpoint(leases.extend), methods=["POST"]),
    Route(paths.RESERVE, endpoint(leases.reserve), methods=["POST"]),
    Route(paths.QUEUE_CLAIM, endpoint(leases.claim_many), methods=["POST"]),
    Route(paths.QUEUE_RELEASE, endpoint(leases.release_many), methods=["POST"]),
    Route(paths.QUEUE, endpoint(queue.page), methods=["GET"]),
    Route(paths.LEASES, endpoint(leases.listed), methods=["GET"]),
    Route(paths.POLICY, endpoint(policy.get), methods=["GET"]),
    Route(paths.POLICY, endpoint(policy.put), methods=["PUT"]),
    Route(paths.STATUS, endpoint(health.status), methods=["GET"]),
]
