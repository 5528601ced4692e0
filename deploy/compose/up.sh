#!/usr/bin/env bash
# Starts the stack and waits until all of it is healthy.
. "$(dirname "$0")/lib.sh"

compose up -d --remove-orphans
compose ps
say "Up. Try: make demo, or"
tell "${compose[*]} exec operator portolan get nodes"
