package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/internal/watch"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

const (
	minTokenLifetime = time.Minute     // shortest pause between pages that a list survives on the replica where it began
	maxLists         = 1000            // unfinished lists in memory
	futurePage       = 3 * time.Second // how long a page waits for a revision that this replica has not reached
)

// Pages keeps the states that unfinished lists are read from. A state takes little memory because
// it shares everything that has not changed since.
//
// A token holds the revision of its list and the key at which the page begins, so any replica can
// continue the list. A replica that did not begin the list rebuilds the state from the changes that
// it keeps for watchers. If only the replica that began a list remembered it, clients would be tied
// to that replica. Rebuilding from the log in the store would need the objects as they were before
// each change, which the log does not have.
type Pages struct {
	view *view.View
	hub  *watch.Hub

	mu    sync.Mutex
	lists map[snapshotKey]*openList
}

// snapshotKey identifies a state that lists of a kind are read from.
type snapshotKey struct {
	epoch    string
	revision uint64
	kind     string
}

type openList struct {
	state *view.State
	used  time.Time
}

// pageQuery holds the parameters that all pages of a list have in common.
type pageQuery struct{ kind, namespace, labels, fields string }

// sum returns a short hash of the query.
func (q pageQuery) sum() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{q.kind, q.namespace, q.labels, q.fields}))
	return string(sum[:8])
}

// pageToken is the position at which a page begins.
type pageToken struct {
	epoch    string
	revision uint64
	query    string // pageQuery.sum
	next     object.Key
}

// NewPages returns an empty Pages.
func NewPages(v *view.View, hub *watch.Hub) *Pages {
	return &Pages{view: v, hub: hub, lists: map[snapshotKey]*openList{}}
}

// open returns the state that a page is read from and the key at which the page begins. Without a
// token, these are the newest state and its first key.
func (p *Pages) open(ctx context.Context, text string, query pageQuery) (*view.State, object.Key, error) {
	start := object.Key{Kind: query.kind}
	if text == "" {
		return p.view.State(), start, nil
	}
	token, ok := parseToken(text)
	if !ok {
		return nil, start, badToken("is none that this service gave out")
	}
	if token.query != query.sum() {
		return nil, start, badToken("belongs to another request: kind, namespace and selectors must stay the same")
	}
	start.Namespace, start.Name = token.next.Namespace, token.next.Name
	key := snapshotKey{token.epoch, token.revision, query.kind}
	if state := p.lookup(key); state != nil {
		return state, start, nil
	}
	state, err := p.rebuild(ctx, key)
	return state, start, err
}

// lookup returns a state that is in memory, or nil.
func (p *Pages) lookup(key snapshotKey) *view.State {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.lists[key]
	if list == nil {
		return nil
	}
	list.used = time.Now()
	return list.state
}

// rebuild rebuilds a state from the changes that are kept for watchers. If this replica is behind
// the replica that began the list, it waits up to futurePage.
func (p *Pages) rebuild(ctx context.Context, key snapshotKey) (*view.State, error) {
	waiting, cancel := context.WithTimeout(ctx, futurePage)
	defer cancel()
	err := p.view.WaitFor(waiting, key.revision)
	for err == nil {
		var state *view.State
		switch state, err = p.hub.At(key.kind, key.epoch, key.revision); {
		case err == nil:
			return state, nil
		case errors.Is(err, watch.ErrForgotten):
			newest := p.view.State().Revision()
			return nil, apierr.OutOfRange("the revision of the list is no longer kept: list again from the first page", newest)
		case app.Pause(waiting, time.Millisecond): // the view has reached it, but the hub has not been updated yet
			err = nil
		}
	}
	return nil, revisionError(ctx, key.revision, err)
}

func badToken(why string) error {
	return apierr.Invalid("request", "", apierr.Violations{{Field: "page_token", Reason: apierr.ReasonInvalid, Message: "the page token " + why}})
}

// store keeps the state for the page that begins with next, and returns the token of that page.
func (p *Pages) store(query pageQuery, state *view.State, next object.Key) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropOld()
	p.lists[snapshotKey{state.Epoch(), state.Revision(), query.kind}] = &openList{state: state, used: time.Now()}
	return pageToken{epoch: state.Epoch(), revision: state.Revision(), query: query.sum(), next: next}.String()
}

// dropOld removes lists that were not continued within minTokenLifetime. If there are still too many, it
// also removes the list that was idle longest.
func (p *Pages) dropOld() {
	var oldest snapshotKey
	for key, list := range p.lists {
		if time.Since(list.used) > minTokenLifetime {
			delete(p.lists, key)
		} else if p.lists[oldest] == nil || list.used.Before(p.lists[oldest].used) {
			oldest = key
		}
	}
	if len(p.lists) >= maxLists {
		delete(p.lists, oldest)
	}
}

// String returns the token in the form that clients get.
func (t pageToken) String() string {
	parts := []string{t.epoch, strconv.FormatUint(t.revision, 10), t.next.Namespace, t.next.Name, t.query}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\x00")))
}

func parseToken(text string) (pageToken, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.SplitN(string(raw), "\x00", 5) // the sum comes last because it may contain any byte
	if err != nil || len(parts) != 5 {
		return pageToken{}, false
	}
	revision, err := strconv.ParseUint(parts[1], 10, 64)
	next := object.Key{Namespace: parts[2], Name: parts[3]}
	return pageToken{epoch: parts[0], revision: revision, query: parts[4], next: next}, err == nil
}
