package tokens_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/kubeapi/internal/tokens"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/bearer"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// table is a table in which all tokens have the same secret.
type table struct {
	*tokens.Table
	t      *testing.T
	secret string
}

func newTable(t *testing.T) *table {
	t.Helper()
	return &table{tokens.New("portolan", nil, nil), t, bearer.NewSecret()}
}

// put stores a token that lives for a time. Functions in change change the object.
func (x *table) put(name, uid string, life time.Duration, change ...func(*corev1.Token)) {
	x.t.Helper()
	sum := bearer.Sum(x.secret)
	o := &corev1.Token{
		Metadata: &corev1.ObjectMeta{Name: name, Uid: uid, CreationTimestamp: timestamppb.Now()},
		Spec:     &corev1.TokenSpec{Identity: "viewer/shop", Sha256: sum[:], Expires: timestamppb.New(time.Now().Add(life))},
	}
	for _, fn := range change {
		fn(o)
	}
	x.Apply([]changes.Change{{Kind: tokens.Kind, Key: object.KeyOf(o), New: o}})
}

func (x *table) remove(name string) {
	x.Apply([]changes.Change{{Kind: tokens.Kind, Key: object.Key{Kind: tokens.Kind, Name: name}}})
}

// find calls Find with a token's name and secret, and returns the code of the error.
func (x *table) find(name string) (*tokens.Token, codes.Code) {
	x.t.Helper()
	token, err := x.Find(bearer.Text(name, x.secret))
	if (err == nil) != (token != nil) || err != nil && strings.Contains(err.Error(), x.secret) {
		x.t.Errorf("%s: %v, %v", name, token, err)
	}
	return token, apierr.Code(err)
}

func TestFind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTable(t)
		if _, code := x.find("ci"); code != codes.Unavailable {
			t.Errorf("before anything was read: %s", code)
		}
		others := x.Apply([]changes.Change{{Kind: "Service"}})
		if len(others) != 1 || others[0].Kind != "Service" {
			t.Errorf("%v", others)
		}
		if _, code := x.find("ci"); code != codes.Unauthenticated {
			t.Errorf("a token that does not exist: %s", code)
		}
		x.put("ci", "1", time.Hour)
		token, code := x.find("ci")
		if code != codes.OK || token.Name != "ci" || token.ID.String() != "spiffe://portolan/viewer/shop" {
			t.Fatalf("%+v, %s", token, code)
		}
		for name, text := range map[string]string{"wrong secret": bearer.Text("ci", bearer.NewSecret()), "no token": "nonsense", "empty": ""} {
			if _, err := x.Find(text); apierr.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: %v", name, err)
			}
		}
		time.Sleep(time.Hour - time.Second)
		if _, code := x.find("ci"); code != codes.OK {
			t.Errorf("a second before its end: %s", code)
		}
		time.Sleep(time.Second)
		if _, err := x.Find(bearer.Text("ci", x.secret)); err == nil || !strings.Contains(err.Error(), "the token ci expired at") {
			t.Errorf("after its end: %v", err)
		}
		if _, err := x.Find(bearer.Text("ci", bearer.NewSecret())); err == nil || strings.Contains(err.Error(), "expired") {
			t.Errorf("a wrong secret after its end: %v", err)
		}
	})
}

// TestTokensThatAreNone stores objects that the registry would not accept, and one that is being deleted.
func TestTokensThatAreNone(t *testing.T) {
	x := newTable(t)
	for name, change := range map[string]func(*corev1.Token){
		"identity": func(o *corev1.Token) { o.Spec.Identity = "god" },
		"no hash":  func(o *corev1.Token) { o.Spec.Sha256 = nil },
		"short":    func(o *corev1.Token) { o.Spec.Sha256 = o.Spec.Sha256[:16] },
		"no end":   func(o *corev1.Token) { o.Spec.Expires = nil },
		"no spec":  func(o *corev1.Token) { o.Spec = nil },
		"deleted":  func(o *corev1.Token) { o.Metadata.DeletionTimestamp = timestamppb.Now() },
	} {
		x.put("t", name, time.Hour, change)
		if _, code := x.find("t"); code != codes.Unauthenticated {
			t.Errorf("%s: %s", name, code)
		}
	}
}

// TestOnDenied checks which changes end a token in use, and which do not.
func TestOnDenied(t *testing.T) {
	labelled := func(o *corev1.Token) { o.Metadata.Labels = map[string]string{"a": "b"} }
	for name, c := range map[string]struct {
		act  func(x *table)
		want string // "": it goes on
	}{
		"deleted": {func(x *table) { x.remove("ci") }, "the token ci was revoked"},
		"being deleted": {func(x *table) {
			x.put("ci", "1", time.Hour, func(o *corev1.Token) { o.Metadata.DeletionTimestamp = timestamppb.Now() })
		}, "the token ci was revoked"},
		"made anew":   {func(x *table) { x.put("ci", "2", time.Hour) }, "the token ci was revoked"},
		"expired":     {func(*table) { time.Sleep(time.Hour) }, "the token ci expired at 2000-01-01T01:00:00Z"},
		"labelled":    {func(x *table) { x.put("ci", "1", time.Hour, labelled) }, ""},
		"another":     {func(x *table) { x.put("other", "3", time.Hour); x.remove("other") }, ""},
		"almost over": {func(*table) { time.Sleep(time.Hour - time.Second) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTable(t)
				x.put("ci", "1", time.Hour)
				token, _ := x.find("ci")
				var got []error
				stop := x.OnDenied(token, func(err error) { got = append(got, err) })
				stopped := x.OnDenied(token, func(err error) { t.Errorf("after stop: %v", err) })
				stopped()
				c.act(x)
				synctest.Wait()
				if text := fmt.Sprint(errors.Join(got...)); c.want == "" && len(got) > 0 || c.want != "" && text != c.want {
					t.Errorf("%v, want %q", got, c.want)
				}
				stop()
				if late := make(chan struct{}); c.want != "" && c.want != "the token ci expired at 2000-01-01T01:00:00Z" {
					defer x.OnDenied(token, func(error) { close(late) })()
					<-late // a watch that begins after the end of its token ends at once
				}
			})
		})
	}
}

// newDenyList returns the list of a daemon with a certificate.
func newDenyList(t *testing.T) *identity.DenyList {
	t.Helper()
	a, err := authority.New(identity.DefaultTrustDomain, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.Issue(authority.Request{ID: identity.ID{TrustDomain: identity.DefaultTrustDomain, Role: identity.KubeAPI}, Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := identity.Files{Cert: filepath.Join(dir, "crt"), Key: filepath.Join(dir, "key"), CA: filepath.Join(dir, "ca")}
	for path, data := range map[string][]byte{files.Cert: pair.Cert, files.Key: pair.Key, files.CA: a.Pair().Cert} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source, err := identity.Open(identity.Options{Files: files, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return source.DenyList()
}

// TestTokensEndWithTheirIdentityAndTheirCreator revokes identities while a watch of a token is open. A token ends with
// the identity that it stands for, and with the identity that created it: after the key of an operator was stolen and
// revoked, the tokens that the thief has made with it must end. If open watches did not look at the creator, they would
// go on until their token expires, although new requests are refused.
func TestTokensEndWithTheirIdentityAndTheirCreator(t *testing.T) {
	const creator = "operator/shop"
	denied := newDenyList(t)
	for name, c := range map[string]struct {
		createdBy, identity string
		before              time.Duration // the revocation is of certificates and tokens that are so much older than now
		ends                bool
	}{
		"its identity":                   {createdBy: creator, identity: "viewer/shop", ends: true},
		"its creator":                    {createdBy: creator, identity: creator, ends: true},
		"its creator before it was made": {createdBy: creator, identity: creator, before: time.Minute},
		"another creator":                {createdBy: creator, identity: "operator/other"},
		"no creator is known":            {identity: creator},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				denied.Replace(nil)
				x := &table{tokens.New("portolan", denied, nil), t, bearer.NewSecret()}
				x.put("ci", "1", time.Hour, func(o *corev1.Token) { o.Spec.CreatedBy = c.createdBy })
				token, code := x.find("ci")
				if code != codes.OK {
					t.Fatalf("before the revocation: %s", code)
				}
				var got []error
				defer x.OnDenied(token, func(err error) { got = append(got, err) })()
				denied.Replace(map[string]identity.Denial{"r": {Identity: c.identity, IssuedBefore: time.Now().Add(-c.before)}})
				synctest.Wait()
				want := fmt.Sprintf("the token ci was revoked, with all that was issued to or by %s until", c.identity)
				if text := fmt.Sprint(errors.Join(got...)); c.ends && !strings.HasPrefix(text, want) || !c.ends && len(got) > 0 {
					t.Errorf("the watch ends with %v, want %q: %v", got, want, c.ends)
				}
				if _, code := x.find("ci"); (code == codes.Unauthenticated) != c.ends {
					t.Errorf("another request: %s", code)
				}
			})
		})
	}
}

// BenchmarkFind measures a request with a good and with a wrong token, among many.
func BenchmarkFind(b *testing.B) {
	x := &table{tokens.New("portolan", nil, nil), nil, bearer.NewSecret()}
	x.t = &testing.T{}
	for n := range 10_000 {
		x.put(fmt.Sprint("t", n), "1", time.Hour)
	}
	for name, text := range map[string]string{"good": bearer.Text("t5000", x.secret), "wrong": bearer.Text("t5000", bearer.NewSecret()), "unknown": bearer.Text("u", x.secret)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = x.Find(text)
			}
		})
	}
}
