#!/usr/bin/env bash
# Adds a kind, Widget, to a copy of the tree, and runs the tests that go through all kinds on the copy:
# create, get, list, watch, update, delete and apply by the registry's API, the change stream, manifests,
# tables and descriptions. The kind must be complete with the files that this script writes or changes,
# besides generated ones: its message, the envelope, and its row in services/kinds.
set -eu -o pipefail
cd "$(dirname "$0")/.."
work=$PWD/.bin/kind # always the same folder, because the build cache depends on it
trap 'rm -rf "$work"' EXIT
rm -rf "$work"
mkdir -p "$work/.bin"

git ls-files -z --cached --others --exclude-standard | xargs -0 cp -P --parents -t "$work"
cp -p .bin/gen .bin/protoc-gen-* "$work/.bin"
cd "$work"
git init -q . && git add -A && git -c user.name=kind -c user.email=kind commit -q -m "before"

cat >proto/portolan/core/v1/widget.proto <<'EOF'
syntax = "proto3";

package portolan.core.v1;

import "portolan/core/v1/meta.proto";

option go_package = "portolan.dev/api/core/v1;corev1";

// Widget is a kind that the contract lacks.
message Widget {
  // Name, identity, labels.
  ObjectMeta metadata = 1;
  // Size and parts.
  WidgetSpec spec = 2;
}

// WidgetSpec describes a widget.
message WidgetSpec {
  // Number of parts.
  int32 size = 1;
  // Names of the parts.
  repeated string parts = 2;
}
EOF
sed -i -e '/service.proto";/a import "portolan/core/v1/widget.proto";' -e '/Event event =/a \    // A Widget.\n    Widget widget = 100;' \
	proto/portolan/core/v1/object.proto
sed -i '0,/^}$/s//\trow[*corev1.Widget]{namespaced: true}.kind(),\n}/' services/kinds/table.go

# The tools come from the original tree and are not built again.
make -s -o .bin/gen generate
go test ./services/access -run 'TestEveryRoleTriesEveryMethod|TestAudited|TestReviews' -update # these lists are generated, too
echo "Files of a new kind, besides generated ones:"
git add -A
git diff --cached --name-only | grep -v -e '\.pb\.go$' -e '/testdata/' -e '^proto/portolan/registry/v1/widgets\.proto$' | tee files
if [ "$(wc -l <files)" -gt 3 ]; then
	echo "a kind is spread over more than 3 files" >&2
	exit 1
fi
go test ./services/kinds ./services/object ./services/spec ./services/access ./services/apply ./services/changes ./registry/store \
	./registry/internal/api ./registry/internal/admission ./registry/internal/gc ./registry/internal/watch ./registry/internal/response \
	./services/client ./services/manifest ./portolan/internal/printer ./portolan/internal/cli
go test ./registry -run 'Kind|Backup|Namespace|Watch'
