-- pgbench: the rows a granted claim of an item of a world writes, in one prepared transaction.
\set node random(0, :cells - 1) * :cell + :plain
\set agent random(0, :agents - 1)
BEGIN;
SELECT version FROM leases WHERE resource = 'task-w' || :node FOR UPDATE;
UPDATE leases SET kind = 'claim', holder = 'agent-bench-' || :agent, holder_name = 'bench', owner = 'person-bench', session = 'race', epoch = epoch + 1, version = version + 1, claimed_at = 1, granted_at = 1, expires_at = 4102444800000000, provisional = false WHERE resource = 'task-w' || :node;
INSERT INTO events (at, kind, node, project, actor, owner, session, epoch, data) VALUES (1, 'lease.claimed', 'task-w' || :node, 'bench', 'agent-bench-' || :agent, 'person-bench', 'race', 1, '{}');
COMMIT;
