package changes_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// versions returns the versions of the services in a view, as their labels tell.
func versions(v *changes.View) string {
	var all []string
	for _, o := range v.List("Service") {
		all = append(all, o.GetMetadata().GetName()+" "+o.GetMetadata().GetLabels()["version"])
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestAnObjectThatCannotBeReadStaysAsItWas lets Trim panic for one version of an object, which comes by a message, in the
// log, or in a snapshot. The view keeps the former version, and has all other objects. The object is named until it
// can be read or is deleted.
func TestAnObjectThatCannotBeReadStaysAsItWas(t *testing.T) {
	for name, catchUp := range map[string]func(d *driven){
		"message": func(d *driven) {
			_, at := d.Position()
			for revision := at + 1; revision <= d.log.Revision(); revision++ {
				d.receive(d.sent(revision))
			}
		},
		"log": func(d *driven) { d.receive(d.sent(d.log.Revision())) },
		"snapshot": func(d *driven) {
			d.log.Put(node("n1"))
			d.log.Prune(d.log.Revision() - 1)
			d.receive(d.mark(d.log.Revision()), d.mark(d.log.Revision()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := changestest.New(t)
			log.Put(service("web", 1), service("api", 1))
			d := drive(t, log, "Service")
			d.config(func(cfg *changes.FollowerConfig) {
				cfg.Guard = guard.New(kittest.Logger(t), d.metrics, d.health)
				cfg.Trim = func(o object.Object) {
					if o.GetMetadata().GetLabels()["version"] == "2" {
						panic("broken on purpose")
					}
				}
			})
			check := func(want string, named bool) {
				t.Helper()
				if _, at := d.Position(); versions(d.View()) != want || at != log.Revision() {
					t.Errorf("the view has %s at %d, want %s at %d", versions(d.View()), at, want, log.Revision())
				}
				if warnings := d.health.Warnings(); named != slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "Service default/web") }) {
					t.Errorf("warnings %q, want web in one: %t", warnings, named)
				}
			}
			d.begin()
			log.Put(service("web", 2), service("api", 3))
			catchUp(d)
			check("api 3, web 1", true)
			log.Put(service("web", 3))
			catchUp(d)
			check("api 3, web 3", false)
			log.Put(service("web", 2))
			catchUp(d)
			check("api 3, web 3", true)
			log.Delete(serviceKey("web"))
			catchUp(d)
			check("api 3", false)
		})
	}
}

// TestEachAppliesTheOtherChanges checks that a change that panics holds back no other change of its batch, in the first
// batch and later.
func TestEachAppliesTheOtherChanges(t *testing.T) {
	log := changestest.New(t)
	log.Put(service("a", 1), service("b", 1), service("c", 1))
	d := drive(t, log, "Service")
	var applied []string
	d.config(func(cfg *changes.FollowerConfig) {
		g := guard.New(kittest.Logger(t), d.metrics, d.health)
		cfg.Guard = g
		cfg.Apply = func(_ context.Context, batch []changes.Change, _ uint64) error {
			changes.Each(g, batch, func(c *changes.Change) {
				if c.Key.Name == "b" && c.New != nil {
					panic("broken on purpose")
				}
				applied = append(applied, c.Key.Name)
			})
			return nil
		}
	})
	d.begin()
	log.Put(service("b", 2), service("c", 2))
	d.receive(d.sent(4), d.sent(5))
	if got := strings.Join(applied, " "); got != "a c c" || d.Revision() != 5 || len(d.health.Warnings()) != 1 || d.health.Ready() != nil {
		t.Errorf("applied %q up to %d, warnings %q, ready %v", got, d.Revision(), d.health.Warnings(), d.health.Ready())
	}
	log.Delete(serviceKey("b"))
	d.receive(d.sent(6))
	if len(d.health.Warnings()) != 0 {
		t.Errorf("warnings %q after the deletion", d.health.Warnings())
	}
}

// TestOldIsTheVersionThatWasApplied checks that the change after one that panicked has the version that the daemon
// has, in the same batch, in the next one and in a snapshot.
func TestOldIsTheVersionThatWasApplied(t *testing.T) {
	log := changestest.New(t)
	log.Put(service("web", 1))
	d := drive(t, log, "Service")
	var applied []string
	d.config(func(cfg *changes.FollowerConfig) {
		g := guard.New(kittest.Logger(t), d.metrics, d.health)
		version := func(o object.Object) string {
			if o == nil {
				return "none"
			}
			return o.GetMetadata().GetLabels()["version"]
		}
		cfg.Guard = g
		cfg.Apply = func(_ context.Context, batch []changes.Change, _ uint64) error {
			changes.Each(g, batch, func(c *changes.Change) {
				if version(c.New) == "13" {
					panic("broken on purpose")
				}
				applied = append(applied, c.Key.Name+" "+version(c.Old)+"-"+version(c.New))
			})
			return nil
		}
	})
	d.begin()
	next := func(objects ...object.Object) {
		t.Helper()
		_, at := d.Position()
		log.Put(objects...)
		var messages []*nats.Msg
		for revision := at + 1; revision <= log.Revision(); revision++ {
			messages = append(messages, d.sent(revision))
		}
		d.receive(messages...)
	}
	next(service("web", 13), service("web", 13), service("web", 2)) // one batch
	next(service("web", 13))
	next(service("web", 13), service("new", 13))
	next(service("web", 3), service("new", 1))
	next(service("web", 13), service("gone", 13))
	log.Delete(serviceKey("gone"))
	d.receive(d.sent(log.Revision()))
	log.Put(service("web", 4), node("n1"))
	log.Prune(log.Revision() - 1)
	d.receive(d.mark(log.Revision()), d.mark(log.Revision()))
	if got, want := strings.Join(applied, ", "), "web none-1, web 1-2, web 2-3, new none-1, gone 13-none, web 3-4"; got != want {
		t.Errorf("applied %s, want %s", got, want)
	}
	if len(d.health.Warnings()) != 0 {
		t.Errorf("warnings %q", d.health.Warnings())
	}
}
