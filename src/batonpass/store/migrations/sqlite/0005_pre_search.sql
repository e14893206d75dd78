-- The index of words. One row for each node, numbered as they were filed; its tokens are those of core/search.py, NULL
-- until some server has read them off the node, which it does by itself. `counts` are the words that texts are compared
-- by. A row of its own: nothing that changes often is in it, and a status is none of its business.
CREATE TABLE search_nodes (
    doc INTEGER NOT NULL PRIMARY KEY,
    node TEXT NOT NULL UNIQUE,
    words TEXT,
    counts TEXT
) STRICT;
CREATE INDEX search_nodes_unread ON search_nodes (doc) WHERE words IS NULL;

-- What PostgreSQL has as an index of this name. The text stays in `search_nodes`, tokens are parted by blanks alone, and
-- short beginnings, behind the letter that says what a token is, are kept ready.
CREATE VIRTUAL TABLE search_words USING fts5 (
    words, content = 'search_nodes', content_rowid = 'doc', detail = none, columnsize = 0,
    tokenize = "ascii tokenchars '-_./'", prefix = '2 3 4'
);

INSERT INTO search_nodes (node) SELECT id FROM nodes ORDER BY created_at, id;
