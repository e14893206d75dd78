"""The whole URL table on one screen. Hot routes first: the router tries them in order."""

from __future__ import annotations

from starlette.routing import Route

from batonpass.server.http import health, identity, leases, nodes, policy, queue, tokens
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
    Route(paths.NODE, endpoint(nodes.get), methods=["GET"]),
    Route(paths.NODES, endpoint(nodes.put), methods=["POST"]),
    Route(paths.NODES, endpoint(nodes.listed), methods=["GET"]),
    Route(paths.NODE_EDGES, endpoint(nodes.edges), methods=["GET"]),
    Route(paths.NODE_EDGES, endpoint(nodes.add_edge), methods=["POST"]),
    Route(paths.NODE_EDGES, endpoint(nodes.remove_edge), methods=["DELETE"]),
    Route(paths.NODE_STATUS, endpoint(nodes.status), methods=["POST"]),
    Route(paths.NODE_PRIORITY, endpoint(nodes.priority), methods=["POST"]),
    Route(paths.NODE_READINESS, endpoint(nodes.readiness), methods=["POST"]),
    Route(paths.NODE_COMMITS, endpoint(nodes.commits), methods=["POST"]),
    Route(paths.ME, endpoint(identity.me), methods=["GET"]),
    Route(paths.LEASES, endpoint(leases.listed), methods=["GET"]),
    Route(paths.POLICY, endpoint(policy.get), methods=["GET"]),
    Route(paths.POLICY, endpoint(policy.put), methods=["PUT"]),
    Route(paths.AGENT_SESSION, endpoint(tokens.bind_session), methods=["POST"]),
    Route(paths.AGENT_TOKEN, endpoint(tokens.mint_agents), methods=["POST"]),
    Route(paths.AGENT_TOKENS, endpoint(tokens.list_agents), methods=["GET"]),
    Route(paths.AGENT_TOKEN_OF, endpoint(tokens.revoke_agents), methods=["DELETE"]),
    Route(paths.AGENTS, endpoint(identity.list_agents), methods=["GET"]),
    Route(paths.AGENTS, endpoint(identity.create_agent), methods=["POST"]),
    Route(paths.MY_TOKENS, endpoint(tokens.list_own), methods=["GET"]),
    Route(paths.MY_TOKENS, endpoint(tokens.mint_own), methods=["POST"]),
    Route(paths.MY_TOKEN, endpoint(tokens.revoke_own), methods=["DELETE"]),
    Route(paths.ADMIN_PEOPLE, endpoint(identity.list_people), methods=["GET"]),
    Route(paths.ADMIN_PEOPLE, endpoint(identity.create_person), methods=["POST"]),
    Route(paths.ADMIN_AGENTS, endpoint(identity.create_agent_for), methods=["POST"]),
    Route(paths.ADMIN_TOKENS, endpoint(tokens.list_personal), methods=["GET"]),
    Route(paths.ADMIN_TOKENS, endpoint(tokens.mint_for), methods=["POST"]),
    Route(paths.ADMIN_TOKEN, endpoint(tokens.revoke_personal), methods=["DELETE"]),
    Route(paths.STATUS, endpoint(health.status), methods=["GET"]),
]
