-- The index of words. One row for each node, numbered as they were filed; its tokens are those of core/search.py, NULL
-- until some server has read them off the node, which it does by itself. `counts` are the words that texts are compared
-- by. A row of its own: nothing that changes often is in it, and a status is none of its business.
CREATE TABLE search_nodes (
    doc bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node text COLLATE "C" NOT NULL UNIQUE,
    words text,
    counts text
);
CREATE INDEX search_nodes_unread ON search_nodes (doc) WHERE words IS NULL;

-- The tokens of a row, with what only the index needs: the short beginnings of its words, and the stretches of numbers
-- that it lies in, by which a search reads the newest nodes first and no more than it has to.
CREATE FUNCTION batonpass_tokens(words text, doc bigint) RETURNS tsvector
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE COST 1000 AS $$
    SELECT array_to_tsvector(array_agg(token))
    FROM (
        SELECT token FROM unnest(string_to_array(words, ' ')) AS whole (token)
        UNION ALL
        SELECT left(token, chars + 1) || '~'
        FROM unnest(string_to_array(words, ' ')) AS word (token), generate_series(1, 3) AS chars
        WHERE left(token, 1) = 'w' AND length(token) > chars
        UNION ALL
        SELECT 's' || bits || '.' || (doc >> bits) FROM unnest(ARRAY[10, 13, 16, 19, 22]) AS bits
    ) AS tokens
$$;

-- Few writes wait in the list of what is still to be sorted in: every search reads all of it. No statistics: a guess that
-- words are rare is right, since each condition names a stretch, and gathering them would read every node again.
CREATE INDEX search_words ON search_nodes USING gin (batonpass_tokens(words, doc)) WITH (gin_pending_list_limit = 512);
ALTER INDEX search_words ALTER COLUMN 1 SET STATISTICS 0;

INSERT INTO search_nodes (node) SELECT id FROM nodes ORDER BY created_at, id;
