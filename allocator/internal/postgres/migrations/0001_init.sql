-- The one row that every batch locks. Its mark tells apart states with one version, of which one was lost when a backup was restored.
CREATE TABLE allocator_head (
	one       boolean PRIMARY KEY CHECK (one),
	version   bigint  NOT NULL,
	mark      bigint  NOT NULL,
	unwritten bigint  NOT NULL CONSTRAINT allocator_written CHECK (unwritten = 0) -- rows of the last batch that were not as it expected
) WITH (fillfactor = 10);

-- What each batch has changed, for ten minutes. The present content is in the other tables.
CREATE TABLE allocator_batches (
	version  bigint      PRIMARY KEY,
	mark     bigint      NOT NULL,
	changed  bytea[]     NOT NULL, -- values
	reserves text[]      NOT NULL, -- holders
	pools    boolean     NOT NULL, -- whether a pool was added, changed or removed
	stored   timestamptz NOT NULL DEFAULT now()
);

-- Ranges that values come from.
CREATE TABLE allocator_pools (
	name         text     COLLATE "C" PRIMARY KEY,
	use          smallint NOT NULL, -- portolan.allocator.v1.Use
	range        text     NOT NULL,
	state        smallint NOT NULL, -- portolan.allocator.v1.PoolState
	static_band  bigint   NOT NULL,
	per_protocol boolean  NOT NULL  -- whether each port has one value for each protocol
);

-- Values and who has them. That a value is the key is what gives it one owner at most.
CREATE TABLE allocator_allocations (
	value     bytea  PRIMARY KEY,       -- two bytes: a port; three: a port and a protocol; four or sixteen: an address
	pool      text   COLLATE "C" NOT NULL,
	uid       text   COLLATE "C" NOT NULL,
	kind      text   NOT NULL,
	namespace text   NOT NULL,
	name      text   NOT NULL,
	released  bigint NOT NULL,          -- milliseconds since 1970; 0: in use
	claims    text   NOT NULL           -- slots of the owner that have the value: [[slot, 1 if confirmed, since], ...]
) WITH (fillfactor = 80);
CREATE INDEX allocator_allocations_by_pool ON allocator_allocations (pool, value);
CREATE INDEX allocator_allocations_at_rest ON allocator_allocations (released) WHERE released <> 0;

-- Reserves of registry processes: values that a process has at hand before a service asks for them. The values are allocations of the holder.
CREATE TABLE allocator_reserves (
	holder     text   COLLATE "C" PRIMARY KEY, -- name of the Lease in the registry that fences the use of the values
	last_grant bigint NOT NULL,                -- number of the newest grant
	renewed    bigint NOT NULL                 -- milliseconds since 1970
);
