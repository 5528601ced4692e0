-- Reserves of registry processes: values that a process has at hand before a service asks for them. The values are rows of holdings, whose owner is the
-- holder.
CREATE TABLE reserves (
	holder      text    NOT NULL PRIMARY KEY, -- name of the Lease in the registry that fences the use of the values
	last_grant  integer NOT NULL,             -- number of the newest grant
	renewed     integer NOT NULL              -- milliseconds since 1970
) WITHOUT ROWID;
