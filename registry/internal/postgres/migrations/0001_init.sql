-- The one row that says how far the log goes. Every commit updates it, which is what puts commits in order; the rest of its page is left free for that.
CREATE TABLE registry_head (
	one      boolean PRIMARY KEY CHECK (one),
	epoch    text    NOT NULL,
	revision bigint  NOT NULL, -- newest; 0: nothing was ever written
	oldest   bigint  NOT NULL  -- changes up to it are pruned, though some may still be here
) WITH (fillfactor = 10);

-- The objects as they are. No index but the key, so that an update of a row stays in its page.
CREATE TABLE registry_objects (
	kind      text   COLLATE "C" NOT NULL,
	namespace text   COLLATE "C" NOT NULL,
	name      text   COLLATE "C" NOT NULL,
	uid       text   COLLATE "C" NOT NULL,
	revision  bigint NOT NULL, -- of the last change
	epoch     bigint NOT NULL, -- fencing epoch of a lease, else 0
	data      bytea  NOT NULL, -- encoded without its revision
	PRIMARY KEY (kind, namespace, name)
) WITH (fillfactor = 80);

-- The log: one row for each revision from registry_head.oldest + 1 to registry_head.revision.
CREATE TABLE registry_changes (
	revision    bigint      PRIMARY KEY,
	type        smallint    NOT NULL, -- portolan.registry.v1.ChangeType
	kind        text        COLLATE "C" NOT NULL,
	namespace   text        COLLATE "C" NOT NULL,
	name        text        COLLATE "C" NOT NULL,
	uid         text        COLLATE "C" NOT NULL,
	data        bytea       NOT NULL, -- the object after the change; for a deletion, as it last was
	time        timestamptz NOT NULL,
	traceparent text        COLLATE "C" NOT NULL,
	batch       bigint      NOT NULL  -- marks what was committed at once: a writer that lost its connection finds its batch by it
);
