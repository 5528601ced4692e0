#!/usr/bin/env bash
# Builds images, and pulls nothing: `build.sh ours` those of Portolan from this checkout, `build.sh standins` ones that
# stand in for Postgres and NATS where no image can be pulled. PORTOLAN_TAG is the tag of ours (dev).
set -euo pipefail
cd "$(dirname "$0")/../.."

tag=${PORTOLAN_TAG:-dev}
here=deploy/images
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# BuildKit where the engine's client has it, otherwise the builder of old, which says at length that it is old.
export DOCKER_BUILDKIT=0
if docker buildx version >/dev/null 2>&1; then DOCKER_BUILDKIT=1; fi
build() {
	docker build -q "$@" 2>"$stage.err" >/dev/null || { cat "$stage.err" >&2; return 1; }
	rm -f "$stage.err"
}

# The same sources and the same Go make the same binaries, wherever they lie. The Makefile says what grpcnotrace is for.
compile() { CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -ldflags "-s -w -buildid=" "$@"; }

ours() {
	local program
	compile -o "$stage/" ./portolan/cmd/portolan ./registry/cmd/registry ./allocator/cmd/allocator \
		./endpointctl/cmd/endpointctl ./lbctl/cmd/lbctl ./dnssvc/cmd/dnssvc ./edge/cmd/edge ./kubeapi/cmd/kubeapi ./nodeagent/cmd/nodeagent
	mkdir -p "$stage/data/var/lib/portolan" "$stage/data/tmp"
	find "$stage" -exec touch -d @0 {} + # so that layers do not depend on the hour either
	for program in registry allocator endpointctl lbctl dnssvc edge kubeapi nodeagent portolan; do
		build -f "$here/Dockerfile" --target "$program" -t "portolan/$program:$tag" "$stage"
		echo "portolan/$program:$tag"
	done
}

# need installs the Debian package of a command where it can, or says which one is missing.
need() {
	command -v "$1" >/dev/null && return
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		apt-get update -q >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$2" >/dev/null && return
	fi
	echo "missing: sudo apt-get install $2" >&2
	exit 1
}

standins() {
	standin_nats
	standin_postgres
}

standin_nats() {
	docker image inspect portolan/standin-nats:dev >/dev/null 2>&1 && return
	need busybox busybox-static
	mkdir "$stage/nats"
	# Within the module of the end-to-end tests, which pins the version.
	(cd portolan && CGO_ENABLED=0 GOWORK=off go build -o "$stage/nats/nats-server" github.com/nats-io/nats-server/v2)
	cp "$(command -v busybox)" "$stage/nats/busybox"
	build -f "$here/nats/Dockerfile" -t portolan/standin-nats:dev "$stage/nats"
	echo portolan/standin-nats:dev
}

standin_postgres() {
	docker image inspect portolan/standin-postgres:dev >/dev/null 2>&1 && return
	need mmdebstrap mmdebstrap
	mkdir "$stage/postgres"
	echo "fetching Debian's Postgres (a minute or two)"
	# Without what compiles queries, which is larger than all the rest and does nothing for short ones.
	mmdebstrap --quiet --variant=apt --include=postgresql-15 --dpkgopt='path-exclude=/usr/lib/*/libLLVM*' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		bookworm "$stage/postgres/rootfs.tar"
	cp "$here/postgres/docker-entrypoint.sh" "$stage/postgres/"
	build -f "$here/postgres/Dockerfile" -t portolan/standin-postgres:dev "$stage/postgres"
	echo portolan/standin-postgres:dev
}

case ${1:-} in
ours | standins) "$1" ;;
*) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
esac
