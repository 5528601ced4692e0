-- Whether each port of a pool has one value for each protocol. Such values have keys of three bytes: the port and the protocol.
ALTER TABLE pools ADD COLUMN per_protocol integer NOT NULL DEFAULT 0;
