SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL: # go is parallel by itself, and the tests want the machine for themselves
.DEFAULT_GOAL := help

# One set of flags for everything: each other set would fill the build cache a second time.
export CGO_ENABLED := 0
# -trimpath keeps the checkout's folder out of the programs, so a clone in another folder finds what this one has compiled.
# grpcnotrace leaves out gRPC's page of its latest calls, which nothing shows. The page's templates look up methods by name,
# so with them the linker would have to keep every exported method: 5 MB of each daemon.
ifeq ($(findstring grpcnotrace,$(GOFLAGS)),) # make test calls make
export GOFLAGS += -tags=grpcnotrace -trimpath
endif
# Where git cannot read the repository (an archive, another owner), go build would refuse to stamp the revision.
ifneq ($(shell git rev-parse --is-inside-work-tree 2>/dev/null),true)
export GOFLAGS += -buildvcs=false
endif

# In dependency order, which is the order that tidy needs.
DAEMONS := registry allocator endpointctl lbctl dnssvc edge kubeapi nodeagent registrar
MODULES := api services $(DAEMONS) portolan faults
# Outside the workspace.
TOOLS   := tools/gen tools/testrun tools/mutate tools/check tools/release
# Clients that the tests of kubeapi build.
CLIENTS := tools/kubeclients tools/oldclient

FUZZTIME  ?= 10s
TESTRUN   := .bin/testrun -alone tools/gen,tools/testrun,tools/mutate,tools/check,tools/release -flakes .ci/flakes -unknown-flakes 2
# -vet=off: the target vet sees to that. -timeout: tests that start many processes share two cores with others.
TESTFLAGS := -vet=off -p 2 -timeout 20m
# The programs that the target build has built, for the tests of programs.
test-go test-plain: export PORTOLAN_PROGRAMS := $(CURDIR)/bin

# Packages that are not tested under the race detector: tests of programs, which are built without it, tests that run in an
# emulated kernel, which has no C library, tests that measure memory, and tools.
UNRACED := portolan/e2e,portolan/e2e/replicas,portolan/e2e/announce,portolan/e2e/kubeapi,portolan/e2e/renewal,portolan/e2e/gitops,portolan/e2e/floods,portolan/internal/walls,nodeagent/dataplane/ipvs,nodeagent/internal/handover,nodeagent/kerneltest,tools/...
# The packages that take longest, so that none of them is alone at the end. testrun prints the times of a run.
SLOWEST := portolan/e2e/kubeapi,portolan/e2e/announce,nodeagent/dataplane/ipvs,portolan/e2e,portolan/e2e/renewal,portolan/e2e/floods,faults/nemesis,faults/lab,nodeagent/dataplane/nftables,portolan/e2e/attacks,registry,registrar/internal/docker,portolan/e2e/docker

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## bin/portolan, and one binary per daemon
	go build -o bin/ ./portolan/cmd/portolan $(foreach d,$(DAEMONS),./$(d)/cmd/$(d))

.PHONY: run
run: ## everything in one process, with an example to try
	go build -o bin/ ./portolan/cmd/portolan
	bin/portolan dev --example examples/hello

# What a commit must pass, the quick ones first. ALSO: further targets, which CI adds.
PHASES := test-tools fmt-check tidy-check resolve walls generate-check proto-lint vet security test-go

.PHONY: test
test: ## all checks of a commit, and a table of their seconds; ALSO="test-packages test-compose": all that CI runs
	@tools/phases.sh $(PHASES) $(ALSO)

# Repetition, and whatever takes long and rarely finds something (docs/testing.md says what and why).
NIGHTLY := test-tools build-alone build-others test-plain kind release-check test-packages test-compose

.PHONY: nightly
nightly: ## what is too slow for each commit: tests without the race detector, more repetitions, other systems, the release, the whole compose stack
	PORTOLAN_NIGHTLY=1 tools/phases.sh $(NIGHTLY)

.PHONY: test-tools
test-tools: ## install what the tests need besides Go, or say what is missing
	@tools/test-tools.sh

.PHONY: test-go
test-go: build .bin/testrun ## the tests of every module, once each: under the race detector where that is possible (needs a C compiler)
	$(TESTRUN) -race -plain $(UNRACED) -first $(SLOWEST) -- $(TESTFLAGS)

.PHONY: test-plain
test-plain: build .bin/testrun ## the tests of every module, all without the race detector
	$(TESTRUN) -first $(SLOWEST) -- $(TESTFLAGS)

.PHONY: test-kernel
test-kernel: ## the data planes in the kernel alone, by real packets
	@tools/test-tools.sh || true
	go test -count=1 -v ./nodeagent/kerneltest ./nodeagent/dataplane/ipvs ./nodeagent/dataplane/nftables | grep -v level=

.PHONY: test-compose
test-compose: $(if $(COMPOSE2),.bin/compose2) ## the compose stack of a fresh clone: start, demonstrate, restart each kind of container, stop (needs a Docker engine); COMPOSE2=1: by Compose v2
	$(if $(COMPOSE2),COMPOSE=$(CURDIR)/.bin/compose2) deploy/compose/test.sh

.PHONY: mutate
mutate: .bin/mutate ## which faults the tests would miss; PKG="registry/internal/gc …", N=40 mutants each, FOR=2h; goes on where it ended; AGAIN=1: survivors too
	@tools/test-tools.sh || true
	.bin/mutate -n $(or $(N),40) $(if $(FOR),-for $(FOR)) $(if $(AGAIN),-again) $(PKG)

.PHONY: faults
faults: ## kill, stop, cut off and fill up a whole installation at random for FOR (10m), as root; SEED=…, SEEDS=30, SCHEDULE=file, SHRINK=1, FIGURES=file
	@tools/test-tools.sh || true
	go test -count=1 -timeout 6h -run '^TestNemesis$$' -v ./faults/nemesis -args -for $(or $(FOR),10m) \
		$(if $(SEED),-seed $(SEED)) $(if $(SEEDS),-seeds $(SEEDS)) $(if $(SCHEDULE),-schedule $(abspath $(SCHEDULE))) \
		$(if $(SHRINK),-shrink) $(if $(FIGURES),-figures $(abspath $(FIGURES)))

.PHONY: bugs
bugs: ## whether the simulation finds deliberate bugs (faults/sim/testdata/bugs), each within a minute; BUG=name: one of them; SEED=…
	tools/bugs.sh $(BUG)

.PHONY: fuzz
fuzz: .bin/testrun ## every fuzz target for FUZZTIME (10s)
	$(TESTRUN) -fuzz $(FUZZTIME)

.PHONY: bench-registry
bench-registry: build ## the registry beside pgbench and etcd (docs/benchmarks.md); QUICK=1 for a look
	@tools/test-tools.sh || true
	@command -v etcd >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get update -q && apt-get install -q -y --no-install-recommends etcd-server; } || \
		{ echo "missing: sudo apt-get install etcd-server"; exit 1; }
	go run ./portolan/bench/registry -bin bin $(if $(QUICK),-quick)

.PHONY: bench-endpointctl
bench-endpointctl: build ## endpoints of 10,000 services, and of 5,000 pods, with Postgres (docs/benchmarks.md); QUICK=1 for a look
	@tools/test-tools.sh || true
	go run ./portolan/bench/endpointctl -bin bin $(if $(QUICK),-quick)

.PHONY: bench-kubeapi
bench-kubeapi: build ## Kubernetes' API beside the registry's: 1,000 watches, lists and informers of 10,000 services, with Postgres; QUICK=1 for a look
	@tools/test-tools.sh || true
	go test -count=1 -timeout 1h -run '^TestMeasure$$' -v ./portolan/bench/kubeapi -args -measure -bin $(CURDIR)/bin $(if $(QUICK),-quick) | grep -v level=

.PHONY: bench-dnssvc
bench-dnssvc: ## the name server beside NSD and Knot (Debian: dnsperf nsd knot); QUICK=1 for a minute's worth; NSD=… another one
	go test -count=1 -timeout 1h -run '^TestMeasure' -v ./dnssvc/internal/bench -args -measure $(if $(QUICK),-quick) $(if $(NSD),-nsd $(NSD)) | grep -v level=

.PHONY: bench-allocator
bench-allocator: ## allocations in full pools beside those in an empty one, batches beside single calls, memory of a million addresses (2 GB)
	go test -count=1 -timeout 1h -run '^TestMeasure' -v ./allocator/internal/bench -args -measure | grep -v level=

.PHONY: bench-nodeagent
bench-nodeagent: ## IPVS beside raw messages in the emulated kernel; nftables and the whole agent on this one (as root)
	@tools/test-tools.sh || true
	go test -count=1 -timeout 1h -run '^TestMeasure$$' -v ./nodeagent/dataplane/ipvs -args -measure | grep -v level=
	go test -count=1 -timeout 1h -run '^TestMeasure$$' -v ./nodeagent/dataplane/nftables -args -measure | grep -v level=
	go test -count=1 -timeout 1h -run '^TestMeasure$$' -v ./nodeagent/internal/bench -args -measure | grep -v level=

.PHONY: bench-node-death
bench-node-death: ## a node's death to the last packet sent to it, five times, in network namespaces (as root)
	go test -count=1 -timeout 30m -run '^TestADeadNodeGetsNoPackets$$' -v ./portolan/e2e/nodes -args -measure | grep -v level=

.PHONY: bench-announce
bench-announce: ## load-balancer addresses when nodes, agents, leaders and edges die: on a LAN, and by BGP, in network namespaces (as root)
	@tools/test-tools.sh || true
	PORTOLAN_NIGHTLY=1 go test -count=1 -timeout 30m -v -p 1 ./portolan/e2e/announce ./portolan/e2e/bgp ./portolan/e2e/edge | grep '_seconds: '

.PHONY: bench-edge
bench-edge: ## the edge beside HAProxy (Debian: haproxy): requests, connections, handshakes and bytes per CPU second; QUICK=1 for a look
	@tools/test-tools.sh || true
	go test -count=1 -timeout 1h -run '^TestMeasure' -v ./edge/internal/bench -args -measure $(if $(QUICK),-quick) | grep -v level=

.PHONY: bench-start
bench-start: ## all daemons started at once, until all are ready, five times
	go test -count=5 -timeout 10m -run '^TestColdStart$$' -v ./portolan/e2e | grep 'all daemons are ready'

.PHONY: bench-parity
bench-parity: ## from an object to connections on three nodes, in network namespaces (as root)
	go test -count=1 -timeout 30m -run '^TestMeasure$$' -v ./portolan/e2e/parity -args -measure | grep -v level=

.PHONY: bench-registrar
bench-registrar: ## a registrar with CONTAINERS (500) containers of the Docker engine here, beside docker ps and docker inspect; takes minutes
	go test -count=1 -timeout 30m -run '^TestMeasure$$' -v ./portolan/e2e/docker -args -measure -containers $(or $(CONTAINERS),500) | grep -v level=

# PACKAGED: the daemons to package. A new one needs its unit and its settings in deploy/systemd, and a page in portolan/internal/manual.
PACKAGED   ?= $(DAEMONS)
MAINTAINER ?= Portolan <portolan@localhost>
PACKAGING   = $(if $(VERSION),-version '$(VERSION)') -maintainer '$(MAINTAINER)' -daemons '$(PACKAGED)'

.PHONY: packages
packages: .bin/release ## Debian packages in dist, for amd64 and arm64 (docs/packages.md); VERSION=1.2.0, MAINTAINER='NAME <ADDRESS>', PACKAGED="registry …"
	.bin/release packages $(PACKAGING)

.PHONY: release
release: .bin/release ## packages, archives, SBOM and checksums in dist, the same bytes each time; VERSION, MAINTAINER as above
	.bin/release all $(PACKAGING)

.PHONY: release-check
release-check: .bin/release ## does a copy of the sources in another folder make the same release? PACKAGED=registry: of one daemon; FRESH=1: with an empty build cache
	.bin/release check $(if $(FRESH),-fresh) $(PACKAGING)

.PHONY: test-packages
test-packages: .bin/release ## install, start, upgrade, remove and purge the packages on a machine of its own, by docs/packages.md (as root)
	@tools/test-tools.sh || true
	deploy/packages/test.sh $(CURDIR)/.bin/release '$(DAEMONS)'

.PHONY: images
images: ## the images of docker-compose.yml that are ours, by the Go of this machine; pulls nothing
	deploy/images/build.sh ours

.PHONY: images-offline
images-offline: ## stand-ins for the images of Postgres, NATS, Go and Prometheus, where none can be pulled
	deploy/images/build.sh standins
	deploy/images/build.sh compiler

.PHONY: up
up: images ## the compose stack, with images by the Go of this machine; OFFLINE=1 with stand-ins for the others
	$(if $(OFFLINE),deploy/images/build.sh standins)
	$(if $(OFFLINE),OFFLINE=1) deploy/compose/up.sh

.PHONY: down
down: ## stop the compose stack and delete its data
	deploy/compose/down.sh

.PHONY: demo
demo: ## what the compose stack does when parts of it die, narrated
	deploy/compose/demo.sh

.PHONY: rolling-restart
rolling-restart: ## restart every container of the stack, one after the other, under load
	deploy/compose/rolling-restart.sh

.PHONY: walls
walls: ## who imports whom, and the habits of the house
	go test ./portolan/internal/walls

.PHONY: vet
vet: ## go vet in the workspace
	go vet work

.PHONY: security
security: security-code vuln ## gosec's rules for all code in the programs, and govulncheck

.PHONY: security-code
security-code: .bin/check ## gosec's rules for all code in the programs (see tools/check)
	.bin/check code ./portolan/cmd/portolan $(foreach d,$(DAEMONS),./$(d)/cmd/$(d))

.PHONY: vuln
vuln: build .bin/check ## known vulnerabilities in the programs' modules and in Go, by vuln.go.dev or VULNDB=file:///FOLDER
	.bin/check vulnerabilities -db '$(VULNDB)' bin/portolan $(addprefix bin/,$(DAEMONS))

.PHONY: resolve
resolve: ## does each module find all packages without the workspace, and the command line those of other systems? (seconds; nightly builds them)
	for m in $(MODULES) $(TOOLS) $(CLIENTS); do GOWORK=off go -C $$m list -deps -test ./... >/dev/null; done
	for os in darwin windows; do GOOS=$$os go list -deps ./portolan/cmd/portolan >/dev/null; done

.PHONY: build-alone
build-alone: ## does each module build without the workspace?
	for m in $(MODULES) $(TOOLS) $(CLIENTS); do GOWORK=off go -C $$m build -o /dev/null ./...; done

.PHONY: build-others
build-others: ## does the command line build for other systems?
	GOOS=darwin GOARCH=arm64 go build -o /dev/null ./portolan/cmd/portolan
	GOOS=windows GOARCH=amd64 go build -o /dev/null ./portolan/cmd/portolan

.PHONY: fmt
fmt: ## gofmt all Go files
	gofmt -w .

.PHONY: fmt-check
fmt-check: ## are all Go files formatted?
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "run make fmt for:"; echo "$$unformatted"; exit 1; }

# The messages of each change, object, allocation and heartbeat get methods without reflection.
GEN := .bin/gen -kinds services/kinds/table.go -fast portolan/core $(foreach f,registry/v1/changes.proto registry/v1/bulk.proto allocator nodeagent/v1/heartbeat.proto,-coded portolan/$(f))
OPENAPI := go run ./kubeapi/internal/openapi/generate

.PHONY: kind
kind: .bin/gen ## whether a new kind takes 3 files: adds one to a copy of the tree, and tests it
	tools/kind.sh

.PHONY: generate
generate: .bin/gen ## write the services of kinds (proto/portolan/registry/v1), the Go code of the contract (api/**/*.pb.go), and the OpenAPI documents of kubeapi
	$(GEN)
	$(OPENAPI)

.PHONY: generate-check
generate-check: .bin/gen ## is the generated code what the contract says, and are the OpenAPI documents those of what kubeapi serves?
	$(GEN) -check
	$(OPENAPI) -check

.PHONY: proto-lint
proto-lint: .bin/gen ## buf's rules for the contract
	.bin/protolint

.PHONY: tidy
tidy: ## go mod tidy in every module
	for m in $(MODULES) $(TOOLS) $(CLIENTS) tools/grpcurl tools/compose2; do GOWORK=off go -C $$m mod tidy; done

.PHONY: tidy-check
tidy-check: ## would tidy change anything? (but for compose2, which would have to be downloaded first)
	for m in $(MODULES) $(TOOLS) $(CLIENTS) tools/grpcurl; do GOWORK=off go -C $$m mod tidy -diff; done

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .bin dist

# The tools are pinned by their go.mod. Builds of one name stand in .bin, because go tool knows only modules of the workspace.
.bin/gen: tools/gen/go.mod tools/gen/go.sum $(wildcard tools/gen/*.go tools/gen/*/*.go tools/gen/*/*.tmpl)
	cd tools/gen && GOWORK=off GOBIN=$(CURDIR)/.bin go install ./... tool

.bin/testrun: tools/testrun/go.mod $(wildcard tools/testrun/*.go)
	cd tools/testrun && GOWORK=off GOBIN=$(CURDIR)/.bin go install .

.bin/mutate: tools/mutate/go.mod $(wildcard tools/mutate/*.go)
	cd tools/mutate && GOWORK=off GOBIN=$(CURDIR)/.bin go install .

.bin/check: tools/check/go.mod tools/check/go.sum $(wildcard tools/check/*.go)
	cd tools/check && GOWORK=off GOBIN=$(CURDIR)/.bin go install .

.bin/release: tools/release/go.mod tools/release/go.sum $(wildcard tools/release/*.go)
	cd tools/release && GOWORK=off GOBIN=$(CURDIR)/.bin go install .

# Compose v2 as a program of its own: three minutes of CPU at the first use.
.bin/compose2: tools/compose2/go.mod tools/compose2/go.sum
	mkdir -p .bin
	cd tools/compose2 && GOWORK=off GOFLAGS= go build -o $(CURDIR)/.bin/compose2 github.com/docker/compose/v2/cmd
