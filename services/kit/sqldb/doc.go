// Package sqldb is what the daemons with a database have in common: migrations, and how an embedded database is opened.
//
// Migrations are SQL files, embedded, numbered without gaps and never changed once released: [Migrate] applies those that are missing, each in a
// transaction of its own with its row in schema_migrations, and refuses a database whose applied files are not the ones at hand (by checksum) or that
// is newer than the program. There is no way back: a step back is a new file. Several processes may start at once, since Postgres runs them under an
// advisory lock, and an embedded database belongs to one process. A library would bring its own command, formats and drivers for what is a hundred
// lines.
//
// The one invariant: after Migrate returned nil, the schema is exactly the one the program was built with.
package sqldb
