package api_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/api"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/pool"
)

// never reports that the values of objects are not known yet.
type never struct{}

// Adopted implements api.Values.
func (never) Adopted(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// HasUnknown implements api.Values.
func (never) HasUnknown(pool.Space) bool { return false }

// AdoptWithin implements api.Values.
func (never) AdoptWithin(context.Context, pool.Space) error { return nil }

// noAnswer is a registry that does not answer.
type noAnswer struct{}

// Get implements api.Leases.
func (noAnswer) Get(context.Context, object.Key) (object.Object, error) {
	return nil, errors.New("gone fishing")
}

func newEngine(t *testing.T) *engine.Engine {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "allocator.db"))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(t.Context(), engine.Config{Store: st, Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(), Rest: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestNothingIsGrantedBeforeValuesAreKnown checks that calls wait for a short time until the values in
// use are known, and then say why they are refused.
func TestNothingIsGrantedBeforeValuesAreKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t)
		server := api.New(e, never{}, everyLease{}, node{})
		begin := time.Now()
		_, err := server.Reserve(t.Context(), &allocatorv1.ReserveRequest{Holder: "portolan-reserve-a"})
		if apierr.Code(err) != codes.Unavailable || time.Since(begin) != 3*time.Second || len(e.Reserves()) != 0 {
			t.Errorf("Reserve: %v after %s, with the reserves %v", err, time.Since(begin), e.Reserves())
		}
		_, err = server.Allocate(t.Context(), &allocatorv1.AllocateRequest{})
		if apierr.Code(err) != codes.Unavailable || time.Since(begin) != 6*time.Second {
			t.Errorf("Allocate: %v after %s", err, time.Since(begin))
		}
	})
}

// TestAnUnknownReserveNeedsTheRegistry checks that a reserve does not begin, and is not called closed,
// while it is unknown whether its Lease exists.
func TestAnUnknownReserveNeedsTheRegistry(t *testing.T) {
	e := newEngine(t)
	server := api.New(e, adopted{}, noAnswer{}, node{})
	_, err := server.Reserve(t.Context(), &allocatorv1.ReserveRequest{Holder: "portolan-reserve-a"})
	if apierr.Code(err) != codes.Unavailable || len(e.Reserves()) != 0 {
		t.Errorf("%v, with the reserves %v", err, e.Reserves())
	}
}
