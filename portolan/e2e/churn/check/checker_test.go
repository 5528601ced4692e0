package check

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

func TestCompare(t *testing.T) {
	web := object.Key{Kind: "Service", Namespace: "ns", Name: "web"}
	db := object.Key{Kind: "Service", Namespace: "ns", Name: "db"}
	found := compare("names", model.Lines{web: {"a", "b", "b"}}, model.Lines{web: {"b", "c"}, db: {"d"}}, false)
	if len(found) != 2 || found[0].Object != db || found[1].Object != web {
		t.Fatalf("%v, want one finding of each service", found)
	}
	for _, want := range []string{"missing:    a", "missing:    b", "unexpected: c"} {
		if !strings.Contains(found[1].Problem, want) {
			t.Errorf("nothing of %q in %s", want, found[1].Problem)
		}
	}
	if same := compare("names", model.Lines{web: {"a", "b"}}, model.Lines{web: {"b", "a"}}, false); len(same) != 0 {
		t.Errorf("the order counts: %v", same)
	}
}

// scripted is a Checker with predefined findings, one set per check.
type scripted struct {
	name  string
	looks [][]Finding
	err   error
	asked int
}

func (s *scripted) Name() string { return s.name }

func (s *scripted) Check(context.Context, *model.World) ([]Finding, error) {
	look := s.looks[min(s.asked, len(s.looks)-1)]
	s.asked++
	return look, s.err
}

// TestAtRest checks that a checker is repeated until it finds nothing, but not for a final finding,
// and that the others check once more in that case.
func TestAtRest(t *testing.T) {
	late := &scripted{name: "late", looks: [][]Finding{{{Problem: "not yet"}}, {}}}
	wrong := &scripted{name: "wrong", looks: [][]Finding{{{Problem: "wrong", Final: true}}, {}}}
	effect := &scripted{name: "effect", looks: [][]Finding{{{Problem: "effect"}}, {}}}
	found, err := RunAll(t.Context(), model.New(), time.Hour, late, wrong, effect)
	if err != nil || len(found) != 2 || found[0].Problem != "wrong" || found[1].Problem != "effect" {
		t.Errorf("%v, %v", found, err)
	}
	broken := &scripted{name: "broken", looks: [][]Finding{nil}, err: errors.New("unavailable")}
	if _, err := RunAll(t.Context(), model.New(), 0, broken); err == nil || !strings.Contains(err.Error(), "broken: unavailable") {
		t.Errorf("a checker that cannot look: %v", err)
	}
}
