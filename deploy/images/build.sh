#!/usr/bin/env bash
# Builds images, and pulls nothing. `build.sh ours` builds Portolan's images, from this checkout and with the host's Go. `build.sh
# standins` builds replacements for Postgres, NATS and Prometheus, and `build.sh compiler` one for Go, with which Compose builds
# ours. PORTOLAN_TAG is the tag of ours (dev).
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

ours() {
	local program
	deploy/images/compile.sh "$stage"
	# The first stage of the Dockerfile, which compiles, is replaced by the programs that are compiled already.
	{
		printf 'ARG RUNTIME_IMAGE=scratch\nFROM scratch AS programs\nCOPY . /out/\n'
		sed '1,/^# The images\./d' "$here/Dockerfile"
	} >"$stage/Dockerfile"
	for program in registry allocator endpointctl lbctl dnssvc edge kubeapi nodeagent registrar portolan; do
		build --target "$program" ${RUNTIME_IMAGE:+--build-arg "RUNTIME_IMAGE=$RUNTIME_IMAGE"} -t "portolan/$program:$tag" "$stage"
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
	standin_prometheus
}

# compiler makes the image again if the host has another Go or the programs need other modules.
compiler() {
	local root content
	root=$(go env GOROOT)
	content=$(cat "$root/VERSION" "$here/go/Dockerfile" portolan/go.mod portolan/go.sum | sha256sum | cut -c 1-16)
	[ "$(docker image inspect -f '{{.Config.Labels.content}}' portolan/standin-go:dev 2>/dev/null)" != "$content" ] || return 0
	need busybox busybox-static
	mkdir -p "$stage/go/go/pkg"
	cp "$(command -v busybox)" "$stage/go/busybox"
	cp -R "$root/bin" "$root/src" "$root/lib" "$root/VERSION" "$root/go.env" "$stage/go/go/"
	cp -R "$root/pkg/include" "$root/pkg/tool" "$stage/go/go/pkg/"
	# Modules come from the host's cache; the proxy has the missing ones. The unpacked modules are of no use here.
	(cd portolan && GOWORK=off GOFLAGS=-modcacherw GOMODCACHE="$stage/cache" GONOSUMDB='*' \
		GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)" go mod download)
	mv "$stage/cache/cache/download" "$stage/go/modules"
	rm -rf "$stage/cache"
	build --build-arg "CONTENT=$content" -f "$here/go/Dockerfile" -t portolan/standin-go:dev "$stage/go"
	rm -rf "$stage/go"
	echo portolan/standin-go:dev
}

standin_prometheus() {
	local root=$stage/prometheus/rootfs library
	docker image inspect portolan/standin-prometheus:dev >/dev/null 2>&1 && return
	need busybox busybox-static
	need prometheus prometheus
	mkdir -p "$root/bin" "$stage/prometheus/data/prometheus"
	cp "$(command -v prometheus)" "$root/bin/prometheus"
	cp "$(command -v busybox)" "$root/bin/wget"
	ldd "$root/bin/prometheus" | grep -o '/[^ ]*' | while read -r library; do
		mkdir -p "$root$(dirname "$library")"
		cp -L "$library" "$root$library"
	done
	build -f "$here/prometheus/Dockerfile" -t portolan/standin-prometheus:dev "$stage/prometheus"
	echo portolan/standin-prometheus:dev
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
	# Without LLVM, which compiles long queries, and is larger than all other files together.
	mmdebstrap --quiet --variant=apt --include=postgresql-15 --dpkgopt='path-exclude=/usr/lib/*/libLLVM*' \
		--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
		bookworm "$stage/postgres/rootfs.tar"
	cp "$here/postgres/docker-entrypoint.sh" "$stage/postgres/"
	build -f "$here/postgres/Dockerfile" -t portolan/standin-postgres:dev "$stage/postgres"
	echo portolan/standin-postgres:dev
}

case ${1:-} in
ours | standins | compiler) "$1" ;;
*) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
esac
