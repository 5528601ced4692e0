package tokens

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/bearer"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/identity"
)

// Kind is the kind that the table follows.
const Kind = "Token"

// Table has all tokens. It is safe for concurrent use.
type Table struct {
	trustDomain string
	denied      *identity.DenyList
	guard       *guard.Guard

	mu     sync.RWMutex
	loaded bool
	byName map[string]*Token
}

// Token is a token that was found in a request.
type Token struct {
	Name string
	ID   identity.ID

	uid       string
	sum       [sha256.Size]byte
	expires   time.Time
	created   time.Time
	createdBy string // path of an identity; empty: none
	// exists is a context that ends when the object is deleted. revoke ends it.
	exists context.Context //nolint:containedctx // it is the lifetime of the token
	revoke context.CancelFunc
}

// New returns an empty table for identities of a trust domain. denied has the revocations. The table applies objects
// under a guard.
func New(trustDomain string, denied *identity.DenyList, g *guard.Guard) *Table {
	return &Table{trustDomain: trustDomain, denied: denied, guard: g, byName: map[string]*Token{}}
}

// Apply applies the changes of Tokens in a batch, and returns the other changes.
func (t *Table) Apply(batch []changes.Change) (others []changes.Change) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.loaded = true
	if !slices.ContainsFunc(batch, func(change changes.Change) bool { return change.Kind == Kind }) {
		return batch
	}
	var own []changes.Change
	for _, change := range batch {
		if change.Kind == Kind {
			own = append(own, change)
		} else {
			others = append(others, change)
		}
	}
	changes.Each(t.guard, own, func(change *changes.Change) {
		o, _ := change.New.(*corev1.Token)
		t.set(change.Key.Name, o)
	})
	return others
}

// set replaces the token with the given name by the token of o, or removes it if o is nil. The caller holds mu.
func (t *Table) set(name string, o *corev1.Token) {
	before := t.byName[name]
	if before != nil && o != nil && before.uid == o.GetMetadata().GetUid() && o.GetMetadata().GetDeletionTimestamp() == nil {
		return // its spec never changes
	}
	if before != nil {
		before.revoke()
		delete(t.byName, name)
	}
	if token := t.parse(o); token != nil {
		t.byName[name] = token
	}
}

// parse returns the token of an object. It returns nil if the object is deleted, or has an invalid identity
// or hash, which the registry does not accept.
func (t *Table) parse(o *corev1.Token) *Token {
	meta, spec := o.GetMetadata(), o.GetSpec()
	id, err := identity.ParsePath(t.trustDomain, spec.GetIdentity())
	if err != nil || len(spec.GetSha256()) != sha256.Size || meta.GetDeletionTimestamp() != nil {
		return nil
	}
	exists, revoke := context.WithCancel(context.Background())
	return &Token{
		Name: meta.GetName(), ID: id, uid: meta.GetUid(), sum: [sha256.Size]byte(spec.GetSha256()), expires: spec.GetExpires().AsTime(),
		created: meta.GetCreationTimestamp().AsTime(), createdBy: spec.GetCreatedBy(),
		exists: exists, revoke: revoke,
	}
}

// unknown is the error text for a token that does not exist and for a token with a wrong secret. The text is
// the same so that guessing does not reveal the names of tokens.
const unknown = "the token is not known: it was revoked, or it never was one (portolan token create makes them)"

// Find returns the token that a client sent as text. The error is Unauthenticated, or Unavailable if the
// tokens have not been read yet.
func (t *Table) Find(text string) (*Token, error) {
	name, secret, ok := bearer.Parse(text)
	if !ok {
		return nil, apierr.Unauthenticated("the token has not the form portolan.NAME.SECRET")
	}
	t.mu.RLock()
	token, loaded := t.byName[name], t.loaded
	t.mu.RUnlock()
	if !loaded {
		return nil, apierr.Unavailable("the tokens have not been read from the registry yet", time.Second)
	}
	sum := bearer.Sum(secret)
	if token == nil || subtle.ConstantTimeCompare(sum[:], token.sum[:]) != 1 {
		return nil, apierr.Unauthenticated(unknown)
	}
	if err := t.check(token); err != nil {
		return nil, apierr.Unauthenticated(err.Error())
	}
	return token, nil
}

// check returns an error if a token has expired or is revoked.
func (t *Table) check(token *Token) error {
	if !time.Now().Before(token.expires) {
		return token.errExpired()
	}
	for _, path := range token.identities() {
		if err := t.denied.CheckIssued(path, token.created); err != nil {
			return token.errRevoked(err)
		}
	}
	return nil
}

// identities returns the paths of the identities of the token and of its creator. A Revocation of either
// denies the token.
func (token *Token) identities() []string {
	if token.createdBy == "" {
		return []string{token.ID.Path()}
	}
	return []string{token.ID.Path(), token.createdBy}
}

func (token *Token) errExpired() error {
	return fmt.Errorf("the token %s expired at %s", token.Name, token.expires.UTC().Format(time.RFC3339))
}

// errRevoked returns the error for a token that a Revocation denies, with the text for its client.
func (token *Token) errRevoked(err error) error {
	if denied, ok := errors.AsType[*identity.Denied](err); ok {
		return fmt.Errorf("the token %s was revoked, with all that was issued to or by %s until %s", token.Name, denied.Path, denied.Denial.IssuedBefore.UTC().Format(time.RFC3339))
	}
	return err
}

// OnDenied calls denied once, in a goroutine of its own, when the token expires or is revoked. If that has
// happened already, it calls denied at once. The caller must call stop, which ends the wait.
func (t *Table) OnDenied(token *Token, denied func(error)) (stop func()) {
	var once sync.Once
	call := func(err error) { once.Do(func() { denied(err) }) }
	timer := time.AfterFunc(time.Until(token.expires), func() { call(token.errExpired()) })
	unwatch := context.AfterFunc(token.exists, func() { call(fmt.Errorf("the token %s was revoked", token.Name)) })
	stops := []func(){func() { timer.Stop() }, func() { unwatch() }}
	for _, path := range token.identities() {
		stops = append(stops, t.denied.OnIssuedDenied(path, token.created, func(err error) { call(token.errRevoked(err)) }))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}
