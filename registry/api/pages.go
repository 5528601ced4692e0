package api

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"portolan.dev/registry/view"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

const (
	pageLife  = time.Minute // how long a list may pause between pages
	mostLists = 1000        // that are under way
)

// Pages keeps the states that lists under way are read from. A state costs little: it shares what has not changed since.
type Pages struct {
	mu    sync.Mutex
	lists map[string]*openList
}

type openList struct {
	query pageQuery
	state *view.State
	used  time.Time
}

// pageQuery is what all pages of a list have in common.
type pageQuery struct{ kind, namespace, labels, fields string }

// NewPages returns a keeper of pages without any.
func NewPages() *Pages { return &Pages{lists: map[string]*openList{}} }

// open returns the state that a page is read from and where the page begins. Without a token, that is the beginning of the newest state.
func (p *Pages) open(token string, query pageQuery, newest *view.State) (*view.State, object.Key, error) {
	start := object.Key{Kind: query.kind}
	if token == "" {
		return newest, start, nil
	}
	id, namespace, name, ok := parseToken(token)
	if !ok {
		return nil, start, badToken("is none that this service gave out")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.lists[id]
	if list == nil || time.Since(list.used) > pageLife {
		delete(p.lists, id)
		return nil, start, apierr.OutOfRange("the revision of the list is no longer kept: list again from the first page", newest.Revision())
	}
	if list.query != query {
		return nil, start, badToken("belongs to another request: kind, namespace and selectors must stay the same")
	}
	list.used = time.Now()
	start.Namespace, start.Name = namespace, name
	return list.state, start, nil
}

func badToken(why string) error {
	return apierr.Invalid("request", "", apierr.Violations{{Field: "page_token", Reason: apierr.ReasonInvalid, Message: "the page token " + why}})
}

// keep remembers the state for the page that begins with next, and returns that page's token. Pages of one list share an entry as long as the state is the same.
func (p *Pages) keep(query pageQuery, state *view.State, next object.Key) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropOld()
	for id, list := range p.lists {
		if list.state == state && list.query == query {
			return makeToken(id, next)
		}
	}
	id := rand.Text()
	p.lists[id] = &openList{query: query, state: state, used: time.Now()}
	return makeToken(id, next)
}

// dropOld forgets lists that nobody goes on with; where there are too many, also the one that was idle longest.
func (p *Pages) dropOld() {
	oldest := ""
	for id, list := range p.lists {
		if time.Since(list.used) > pageLife {
			delete(p.lists, id)
		} else if oldest == "" || list.used.Before(p.lists[oldest].used) {
			oldest = id
		}
	}
	if len(p.lists) >= mostLists {
		delete(p.lists, oldest)
	}
}

func makeToken(id string, next object.Key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(id + "\x00" + next.Namespace + "\x00" + next.Name))
}

func parseToken(token string) (id, namespace, name string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", "", "", false
	}
	parts := strings.Split(string(raw), "\x00")
	if len(parts) != 3 {
		return "", "", "", false
	}
	return parts[0], parts[1], parts[2], true
}
