package host

import (
	"errors"
	"testing"

	"github.com/vishvananda/netlink"
)

func TestListWhole(t *testing.T) {
	failed := errors.New("not read")
	for name, c := range map[string]struct {
		errs  []error // of the readings, the last one for all further ones
		calls int
		want  error
	}{
		"whole":              {[]error{nil}, 1, nil},
		"interrupted twice":  {[]error{netlink.ErrDumpInterrupted, netlink.ErrDumpInterrupted, nil}, 3, nil},
		"another error":      {[]error{netlink.ErrDumpInterrupted, failed}, 2, failed},
		"always interrupted": {[]error{netlink.ErrDumpInterrupted}, listTries, netlink.ErrDumpInterrupted},
	} {
		calls := 0
		list, err := listWhole(func() ([]int, error) {
			calls++
			return []int{calls}, c.errs[min(calls, len(c.errs))-1]
		})
		if calls != c.calls || !errors.Is(err, c.want) || len(list) != 1 || list[0] != calls {
			t.Errorf("%s: %v and %v after %d calls, want %v after %d", name, list, err, calls, c.want, c.calls)
		}
	}
}
