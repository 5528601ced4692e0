SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
export CGO_ENABLED := 0

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | column -t -s $$'\t'

.bin/gen: tools/gen/go.mod tools/gen/go.sum $(wildcard tools/gen/*.go)
	cd tools/gen && GOWORK=off GOBIN=$(CURDIR)/.bin go install . tool

.PHONY: generate
generate: .bin/gen ## write the Go code of the contract (proto/**/*.pb.go)
	.bin/gen

.PHONY: generate-check
generate-check: .bin/gen ## is the generated code what the contract says?
	.bin/gen -check
