"""Services: where a transaction begins and ends, and where permission is decided.

What changes the graph, people, agents, tokens and policies returns its reply
as a struct of `wire`: the reply is stored in the change's own transaction, and
a repetition of the request gets those very bytes (D11), so it has to be made
here. Reads, the lease verbs and the queue are never answered from the store;
they return values of the law, and `http` makes the reply.
"""
