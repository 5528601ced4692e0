#!/bin/sh
# Compiles all programs of the images into a folder, with the folder `data` beside them: `compile.sh FOLDER`. The first stage
# of Dockerfile runs it in a container, and build.sh on the host. Images of Go have no bash.
set -eu
cd "$(dirname "$0")/../../portolan"

# The module of the command line requires the modules of all daemons, because a container has no workspace. The host has one,
# and its build cache has the packages as the workspace compiles them. The Makefile explains grpcnotrace.
CGO_ENABLED=0 GOFLAGS= go build -tags grpcnotrace -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o "$1/" ./cmd/portolan \
	portolan.dev/registry/cmd/registry portolan.dev/allocator/cmd/allocator portolan.dev/endpointctl/cmd/endpointctl \
	portolan.dev/lbctl/cmd/lbctl portolan.dev/dnssvc/cmd/dnssvc portolan.dev/edge/cmd/edge portolan.dev/kubeapi/cmd/kubeapi \
	portolan.dev/nodeagent/cmd/nodeagent portolan.dev/registrar/cmd/registrar
mkdir -p "$1/data/var/lib/portolan" "$1/data/tmp"
find "$1" -exec touch -d @0 {} + # so that layers do not depend on the hour
