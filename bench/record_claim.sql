-- pgbench: the rows a granted claim of a record's task writes, in one prepared transaction. A colon in a literal would be a variable of its own.
\set record random(0, :records - 1)
\set agent random(0, :agents - 1)
BEGIN;
SELECT version FROM leases WHERE resource = 'record' || chr(58) || 'bench/free-' || :record || '#work' FOR UPDATE;
SELECT version, history_n FROM records WHERE class = 'bench' AND id = 'free-' || :record FOR UPDATE;
UPDATE leases SET kind = 'claim', holder = 'agent-bench-' || :agent, holder_name = 'bench', owner = 'person-bench', epoch = epoch + 1, version = version + 1, claimed_at = 1, granted_at = 1, expires_at = 4102444800000000, provisional = false WHERE resource = 'record' || chr(58) || 'bench/free-' || :record || '#work';
UPDATE records SET version = version + 1, history_n = history_n + 1, updated_at = 1 WHERE class = 'bench' AND id = 'free-' || :record;
INSERT INTO record_log (class, id, n, at, author, verb, field, version, record_version, class_version) SELECT class, id, history_n, 1, 'agent.agent-bench-' || :agent, 'claim', 'work', version, version, 1 FROM records WHERE class = 'bench' AND id = 'free-' || :record;
INSERT INTO events (at, kind, actor, owner, epoch, data, record, field, version) VALUES (1, 'lease.claimed', 'agent-bench-' || :agent, 'person-bench', 1, '{}', 'bench/free-' || :record, 'work', 1);
COMMIT;
