#!/usr/bin/env bash
# Stops the stack and deletes its data.
. "$(dirname "$0")/lib.sh"

compose --profile monitoring down -v --remove-orphans -t 2
