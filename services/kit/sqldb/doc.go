// Package sqldb has the shared code of daemons with a database: migrations, and opening an embedded
// database.
//
// Migrations are embedded SQL files, numbered without gaps and never changed once released.
// [Migrate] applies the missing ones, each in its own transaction together with its row in
// schema_migrations. It refuses a database with applied migrations that differ from the files by
// checksum, or with more migrations than the program has. Migrations cannot be undone; a correction
// is a new file. Several processes may start at once: with Postgres the migrations run under an
// advisory lock, and an embedded database belongs to one process. A library would add its own
// command, formats and drivers for about a hundred lines of code.
//
// The invariant: after Migrate has returned nil, the database has exactly the schema of the program.
package sqldb
