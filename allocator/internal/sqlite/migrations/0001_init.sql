-- Ranges that values come from.
CREATE TABLE pools (
	name        text    NOT NULL PRIMARY KEY,
	use         integer NOT NULL,
	range       text    NOT NULL,
	state       integer NOT NULL,
	static_band integer NOT NULL
) WITHOUT ROWID;

-- Values and who has them. That a value is the key is what gives it one owner at most.
CREATE TABLE holdings (
	value     blob    NOT NULL PRIMARY KEY, -- two bytes: a port; four or sixteen: an address
	pool      text    NOT NULL REFERENCES pools (name),
	uid       text    NOT NULL,
	kind      text    NOT NULL,
	namespace text    NOT NULL,
	name      text    NOT NULL,
	released  integer NOT NULL              -- milliseconds since 1970; 0: in use
) WITHOUT ROWID;

CREATE INDEX holdings_by_pool ON holdings (pool, value);
CREATE INDEX holdings_by_uid ON holdings (uid);

-- Slots of the owner that have a value.
CREATE TABLE claims (
	value     blob    NOT NULL REFERENCES holdings (value),
	slot      text    NOT NULL,
	confirmed integer NOT NULL,
	since     integer NOT NULL,
	PRIMARY KEY (value, slot)
) WITHOUT ROWID;
