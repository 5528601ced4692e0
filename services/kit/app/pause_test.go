package app_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/services/kit/app"
)

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !app.Pause(t.Context(), time.Minute) || time.Since(start) != time.Minute {
			t.Errorf("a pause of a minute took %s", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if app.Pause(ctx, time.Minute) || time.Since(start) != time.Second {
			t.Errorf("a pause that its context ended after a second took %s", time.Since(start))
		}
	})
}
