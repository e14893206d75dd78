-- What briefings read: of a node's neighbours, of corrections, norms and a project's nodes, the newest, and no more.

-- Of edges of one type onto one node the newest first, so that a hub with thousands is read as far as is wanted.
CREATE INDEX edges_newest ON edges (dst, type, created_at DESC, src);

-- The corrections of one target that stand, the newest first.
CREATE INDEX corrections_of ON nodes ((extra::jsonb ->> 'target'), created_at DESC, id) WHERE type = 'correction' AND NOT dead;

-- Norms in force, the newest first.
CREATE INDEX nodes_norms ON nodes (created_at DESC, id) WHERE type = 'norm' AND NOT dead;

-- Of each kind of node in a project the newest that are not retired.
CREATE INDEX nodes_recent ON nodes (project, type, created_at DESC, id) WHERE NOT dead;
