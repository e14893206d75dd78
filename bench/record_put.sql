-- pgbench: the rows a fenced write of a register writes, in one prepared transaction. A colon in a literal would be a variable of its own.
\set record random(0, :records - 1)
\set agent random(0, :agents - 1)
BEGIN;
SELECT version FROM leases WHERE resource = 'record' || chr(58) || 'bench/held-' || :record || '#work' FOR UPDATE;
SELECT version, history_n FROM records WHERE class = 'bench' AND id = 'held-' || :record FOR UPDATE;
UPDATE records SET version = version + 1, history_n = history_n + 1, updated_at = 1 WHERE class = 'bench' AND id = 'held-' || :record;
INSERT INTO record_fields (class, id, field, version, value, author, updated_at) VALUES ('bench', 'held-' || :record, 'status', 1, '"a step of the work is done"', 'agent.agent-bench-' || :agent, 1) ON CONFLICT (class, id, field) DO UPDATE SET version = record_fields.version + 1, value = excluded.value, author = excluded.author, updated_at = excluded.updated_at;
INSERT INTO record_log (class, id, n, at, author, verb, field, version, record_version, class_version, value, based_on) SELECT class, id, history_n, 1, 'agent.agent-bench-' || :agent, 'put', 'status', version, version, 1, '"a step of the work is done"', '[{"field":"work","epoch":1,"kind":"fence"}]' FROM records WHERE class = 'bench' AND id = 'held-' || :record;
INSERT INTO events (at, kind, actor, owner, data, record, field, version) VALUES (1, 'record.put', 'agent-bench-' || :agent, 'person-bench', '{"record_version": 1}', 'bench/held-' || :record, 'status', 1);
COMMIT;
