package postgres

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"portolan.dev/services/kit/kittest"
)

// TestColumns sends columns to Postgres and compares the values that Postgres has read.
func TestColumns(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), kittest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	registerColumns(conn.TypeMap())
	for _, want := range [][]string{{}, {""}, {"a"}, {`"quoted"`, `{1,2}`, `back\slash`, "NULL", "", "ä\n€"}, make([]string, 1000)} {
		data := [][]byte{} // nil would be NULL
		for _, text := range want {
			data = append(data, []byte{0, 0xff}, []byte(text))
		}
		var texts []string
		var bytes [][]byte
		var both int
		err := conn.QueryRow(t.Context(), `SELECT $1::text[], $2::bytea[], cardinality($1) + cardinality($2)`, column[string](want), column[[]byte](data)).Scan(&texts, &bytes, &both)
		if err != nil {
			t.Fatalf("%q: %v", want, err)
		}
		if !slices.Equal(texts, want) || !slices.EqualFunc(bytes, data, slices.Equal) || both != len(want)+len(data) {
			t.Errorf("got %q, %q, %d in all, want %q, %q", texts, bytes, both, want, data)
		}
	}
}
