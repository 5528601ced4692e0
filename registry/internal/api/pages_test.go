package api

import (
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/services/object"
)

// TestPageTokensComeBack checks that a token keeps its content for any hash of its query, and that
// a modified token is not accepted for another query.
func TestPageTokensComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z0-9.-]{0,12}`)
		query := pageQuery{kind: "Lease", namespace: word.Draw(t, "namespace"), labels: rapid.String().Draw(t, "labels"), fields: rapid.String().Draw(t, "fields")}
		token := pageToken{
			epoch: word.Draw(t, "epoch"), revision: rapid.Uint64().Draw(t, "revision"), query: query.sum(),
			next: object.Key{Namespace: word.Draw(t, "next namespace"), Name: word.Draw(t, "next name")},
		}
		if got, ok := parseToken(token.String()); !ok || got != token {
			t.Fatalf("%+v came back as %+v, %v", token, got, ok)
		}
		other := query
		other.labels += "x"
		if other.sum() == query.sum() {
			t.Fatalf("%+v and %+v have the same sum", query, other)
		}
	})
}

// FuzzPageToken checks that any string is either parsed or refused as a token.
func FuzzPageToken(f *testing.F) {
	f.Add("")
	f.Add("nonsense")
	f.Add(pageToken{epoch: "e", revision: 7, query: pageQuery{kind: "Lease"}.sum(), next: object.Key{Namespace: "default", Name: "web"}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		token, ok := parseToken(text)
		if !ok {
			return
		}
		if again, ok := parseToken(token.String()); !ok || again != token {
			t.Fatalf("%q was read as %+v, then as %+v", text, token, again)
		}
	})
}
