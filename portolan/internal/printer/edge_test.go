package printer

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	edgev1 "portolan.dev/api/edge/v1"
)

func TestEdgeStatusOfBothReleases(t *testing.T) {
	for name, status := range map[string]*edgev1.GetStatusResponse{
		"an earlier release": {ViewAgeSeconds: 7},
		"both fields":        {ViewAgeSeconds: 5, ViewAge: durationpb.New(7 * time.Second)},
		"only view_age":      {ViewAge: durationpb.New(7 * time.Second)},
	} {
		var out strings.Builder
		if err := EdgeStatus(&out, status); err != nil || !strings.Contains(out.String(), "7s old") {
			t.Errorf("%s: %v, %q", name, err, out.String())
		}
	}
}
