-- The one row that says how far the log goes.
CREATE TABLE head (
	one      INTEGER PRIMARY KEY CHECK (one = 1),
	epoch    TEXT    NOT NULL,
	revision INTEGER NOT NULL, -- newest; 0: nothing was ever written
	oldest   INTEGER NOT NULL  -- changes up to it are pruned
) STRICT;

-- The objects as they are.
CREATE TABLE objects (
	kind      TEXT    NOT NULL,
	namespace TEXT    NOT NULL,
	name      TEXT    NOT NULL,
	uid       TEXT    NOT NULL,
	revision  INTEGER NOT NULL, -- of the last change
	epoch     INTEGER NOT NULL, -- fencing epoch of a lease, else 0
	data      BLOB    NOT NULL, -- encoded without its revision
	UNIQUE (kind, namespace, name)
) STRICT;

-- The log: one row for each revision from head.oldest + 1 to head.revision.
CREATE TABLE changes (
	revision    INTEGER PRIMARY KEY,
	type        INTEGER NOT NULL, -- portolan.registry.v1.ChangeType
	kind        TEXT    NOT NULL,
	namespace   TEXT    NOT NULL,
	name        TEXT    NOT NULL,
	uid         TEXT    NOT NULL,
	data        BLOB    NOT NULL, -- the object after the change; for a deletion, as it last was
	time        INTEGER NOT NULL, -- microseconds since 1970
	traceparent TEXT    NOT NULL
) STRICT;
