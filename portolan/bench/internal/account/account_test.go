package account_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"portolan.dev/portolan/bench/internal/account"
)

var kinds = []account.Kind{
	{Name: "allocation", Functions: []string{"runtime.mallocgc"}},
	{Name: "decode", Functions: []string{"example.org/api.(*Object).Unmarshal"}},
	{Name: "calls", Functions: []string{"example.org/grpc."}},
}

// encoded returns a profile with one sample for each stack of functions, innermost first, of the time
// that is given for it.
func encoded(t *testing.T, stacks map[int64][]string) []byte {
	t.Helper()
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	for spent, stack := range stacks {
		sample := &profile.Sample{Value: []int64{1, spent}}
		for _, name := range stack {
			f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			l := &profile.Location{ID: uint64(len(p.Location) + 1), Line: []profile.Line{{Function: f}}}
			p.Function, p.Location = append(p.Function, f), append(p.Location, l)
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestASampleBelongsToTheFirstKindInItsStack(t *testing.T) {
	got, err := account.Divide(encoded(t, map[int64][]string{
		10: {"runtime.memclr", "runtime.mallocgc", "example.org/api.(*Object).UnmarshalVT", "example.org/grpc.handle"},
		20: {"example.org/api.varint", "example.org/api.(*Object).UnmarshalVT", "example.org/grpc.handle"},
		30: {"syscall.write", "example.org/grpc.flush"},
		40: {"main.main"},
	}), kinds)
	if err != nil {
		t.Fatal(err)
	}
	want := account.Shares{"allocation": 0.1, "decode": 0.2, "calls": 0.3, account.Rest: 0.4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDivideRefuses(t *testing.T) {
	for name, data := range map[string][]byte{"nothing": nil, "text": []byte("404 page not found"), "no samples": encoded(t, nil)} {
		if shares, err := account.Divide(data, kinds); err == nil {
			t.Errorf("%s: shares %v", name, shares)
		}
	}
}

func TestTable(t *testing.T) {
	got := account.Table([]string{"calls", "decode", "allocation"}, []account.Column{
		account.NewColumn("server", 100, account.Shares{"calls": 0.75, account.Rest: 0.25}),
		account.NewColumn("client", 10, account.Shares{"calls": 0.5, "decode": 0.5}),
	})
	const want = `| µs | server | client |
|---|---|---|
| calls | 75.0 | 5.0 |
| decode | | 5.0 |
| other | 25.0 | |
| **sum** | 100.0 | 10.0 |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
