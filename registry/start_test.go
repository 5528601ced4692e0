package registry

import (
	"errors"
	"testing"
)

func TestReasonIsTheSameForTheSameTrouble(t *testing.T) {
	one := reason(errors.New("read tcp 127.0.0.1:40000->127.0.0.1:5432: connection reset by peer"))
	if again := reason(errors.New("read tcp 127.0.0.1:40001->127.0.0.1:5432: connection reset by peer")); again != one {
		t.Errorf("%q, then %q", one, again)
	}
	if other := reason(errors.New("read tcp 127.0.0.1:40000->127.0.0.1:5433: connection reset by peer")); other == one {
		t.Errorf("another server's is %q too", other)
	}
}
