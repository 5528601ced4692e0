-- A holding is written as a whole: its claims are a part of its row. Who has what is looked up in memory, so that no index is in the order of UIDs, which
-- would be another page for every row; those that are left are in the order of the values, of which neighbours are handed out together.
CREATE TABLE holdings_with_claims (
	value     blob    NOT NULL PRIMARY KEY, -- two bytes: a port; four or sixteen: an address
	pool      text    NOT NULL REFERENCES pools (name),
	uid       text    NOT NULL,
	kind      text    NOT NULL,
	namespace text    NOT NULL,
	name      text    NOT NULL,
	released  integer NOT NULL,             -- milliseconds since 1970; 0: in use
	claims    text    NOT NULL              -- slots of the owner that have the value: [[slot, 1 if confirmed, since], ...]
) WITHOUT ROWID;

INSERT INTO holdings_with_claims
SELECT value, pool, uid, kind, namespace, name, released,
	(SELECT json_group_array(json_array(c.slot, c.confirmed, c.since)) FROM claims c WHERE c.value = h.value)
FROM holdings h;

DROP TABLE claims;
DROP TABLE holdings;
ALTER TABLE holdings_with_claims RENAME TO holdings;
CREATE INDEX holdings_by_pool ON holdings (pool, value);
