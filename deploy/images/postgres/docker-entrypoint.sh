#!/bin/sh
# Makes a database cluster where there is none, with the role and database that the environment names, then runs the server.
set -eu

if [ "$(id -u)" = 0 ]; then
	mkdir -p "$PGDATA" /run/postgresql
	chown postgres:postgres "$PGDATA" /run/postgresql
	chmod 700 "$PGDATA"
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE"); fi
	: "${POSTGRES_PASSWORD:?must be set}"
	user=${POSTGRES_USER:-postgres}
	password=$(mktemp)
	printf '%s' "$POSTGRES_PASSWORD" >"$password"
	initdb --username="$user" --pwfile="$password" --auth-host=scram-sha-256 --auth-local=trust >/dev/null
	rm "$password"
	echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
	if [ "${POSTGRES_DB:-$user}" != postgres ]; then
		pg_ctl -w start -o "-c listen_addresses=''" >/dev/null
		createdb --username="$user" "${POSTGRES_DB:-$user}"
		pg_ctl -w stop -m fast >/dev/null
	fi
fi
if [ "$1" = postgres ]; then
	shift
	exec postgres -c listen_addresses='*' "$@"
fi
exec "$@"
