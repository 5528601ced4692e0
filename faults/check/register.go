package check

import (
	"fmt"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"

	"portolan.dev/faults/history"
)

// register is the state of one object, as a register with compare-and-set: absent, or present in a
// version. Fields of the version that no client learned are empty.
type register struct {
	present bool
	version history.Version
}

// step is one operation on a register: a client's call, or a change in the log that another client
// made.
type step struct {
	call *history.Call
	// from and to are the versions before and after a change of another client. Revision 0 in from
	// means that the object did not exist, in to that it was deleted.
	from, to history.Version
	// resultingVersion is the version that an unknown create or update leads to, as far as it is
	// known.
	resultingVersion history.Version
}

// registerModel returns the porcupine model of a register.
func registerModel(initial register) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return initial },
		Equal: func(a, b any) bool { return a == b },
		Step: func(state, input, _ any) (bool, any) {
			s, _ := state.(register)
			op, _ := input.(*step)
			return op.apply(s)
		},
	}
}

// apply returns whether the operation can have had its outcome in a state, and the state after it.
// An unknown write that cannot take effect in a state leaves it alone, so placing it there means
// that it never happened.
func (op *step) apply(s register) (bool, register) {
	c := op.call
	switch {
	case c == nil:
		return op.applyOther(s)
	case c.Outcome == history.Refused:
		return s.explains(c), s
	case c.Verb == history.Get:
		return s.present && same(s.version, c.Found), s
	}
	possible := !s.present
	if c.Verb != history.Create {
		possible = s.present && s.matches(c)
	}
	after := register{present: true, version: c.Found}
	switch {
	case c.Outcome == history.Unknown:
		if !possible {
			return true, s
		}
		after.version = op.resultingVersion
		if after.version.UID == "" && c.Verb != history.Create {
			after.version.UID = s.version.UID
		}
		if c.Verb == history.UpdateStatus {
			after.version.Mark = s.version.Mark
		}
	case c.Verb == history.Update:
		possible = possible && agree(s.version.UID, c.Found.UID) && c.Found.Revision > s.version.Revision
	case c.Verb == history.UpdateStatus:
		possible = possible && agree(s.version.UID, c.Found.UID) && agree(s.version.Mark, c.Found.Mark) && c.Found.Revision >= s.version.Revision
	case c.Verb == history.Delete:
		possible = possible && same(s.version, c.Found)
	}
	if c.Verb == history.Delete {
		after = register{}
	}
	return possible, after
}

// applyOther applies a change that another client made.
func (op *step) applyOther(s register) (bool, register) {
	after := register{present: op.to.Revision > 0, version: op.to}
	if op.from.Revision == 0 {
		return !s.present, after
	}
	return s.present && same(s.version, op.from), after
}

// explains reports whether the state is a reason for a refusal.
func (s register) explains(c *history.Call) bool {
	switch c.Code {
	case codes.NotFound:
		return !s.present
	case codes.AlreadyExists:
		return s.present
	case codes.Aborted: // the condition does not hold, which is true of an absent object too
		return !s.present || !s.surelyMatches(c)
	}
	return true
}

// matches reports whether the state may fulfil a call's conditions.
func (s register) matches(c *history.Call) bool {
	return (c.IfUID == "" || agree(s.version.UID, c.IfUID)) &&
		(c.IfRevision == 0 || s.version.Revision == 0 || s.version.Revision == c.IfRevision)
}

// surelyMatches reports whether the state is known to fulfil a call's conditions.
func (s register) surelyMatches(c *history.Call) bool {
	return (c.IfUID == "" || s.version.UID == c.IfUID) && (c.IfRevision == 0 || s.version.Revision == c.IfRevision)
}

// same reports whether two versions may be one, as far as both are known.
func same(a, b history.Version) bool {
	return agree(a.UID, b.UID) && agree(a.Mark, b.Mark) && (a.Revision == 0 || b.Revision == 0 || a.Revision == b.Revision)
}

func agree(a, b string) bool { return a == "" || b == "" || a == b }

// String returns the operation on one line.
func (op *step) String() string {
	c := op.call
	if c == nil {
		return fmt.Sprintf("somebody else's change of version %d to %d", op.from.Revision, op.to.Revision)
	}
	text := fmt.Sprintf("%s %s by %s", c.Verb, c.Mark, c.Client)
	if c.IfUID != "" || c.IfRevision > 0 {
		text += fmt.Sprintf(" (if uid %q, version %d)", c.IfUID, c.IfRevision)
	}
	switch c.Outcome {
	case history.OK:
		text += fmt.Sprintf(": version %d of %s", c.Found.Revision, c.Found.UID)
	case history.Refused:
		text += fmt.Sprintf(": refused, %s", c.Code)
	default:
		text += ": unknown"
	}
	return text
}
