package check

import (
	"fmt"

	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc/codes"

	"portolan.dev/faults/history"
)

// register is the state of one object, as a register with compare-and-set. It is either absent or
// present in a version. Fields of the version are empty if no client learned them.
type register struct {
	present bool
	version history.Version
}

// operation is an operation on a register: a client's call, or a change in the log that no recorded
// call made.
type operation struct {
	call *history.Call
	// before and after are the versions before and after a change that no recorded call made. A
	// before with revision 0 means that the object did not exist, an after with revision 0 means a
	// deletion.
	before, after history.Version
	// resultingVersion is the known part of the version that an unknown create or update results
	// in.
	resultingVersion history.Version
}

// registerModel returns the porcupine model of a register.
func registerModel(initial register) porcupine.Model {
	return porcupine.Model{
		Init:  func() any { return initial },
		Equal: func(a, b any) bool { return a == b },
		Step: func(state, input, _ any) (bool, any) {
			s, _ := state.(register)
			op, _ := input.(*operation)
			return op.apply(s)
		},
	}
}

// apply reports whether the operation can have its outcome in a state, and returns the state after
// it. An unknown write that cannot take effect in a state does not change it, so an order with the
// write at this place means that the write never took effect.
func (op *operation) apply(s register) (bool, register) {
	c := op.call
	switch {
	case c == nil:
		return op.applyExternal(s)
	case c.Outcome == history.Refused:
		return s.mayRefuse(c), s
	case c.Verb == history.Get:
		return s.present && compatible(s.version, c.Result), s
	}
	possible := !s.present
	if c.Verb != history.Create {
		possible = s.present && s.mayMatch(c)
	}
	after := register{present: true, version: c.Result}
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
			after.version.WriteID = s.version.WriteID
		}
	case c.Verb == history.Update:
		possible = possible && equalIfKnown(s.version.UID, c.Result.UID) && c.Result.Revision > s.version.Revision
	case c.Verb == history.UpdateStatus:
		possible = possible && equalIfKnown(s.version.UID, c.Result.UID) && equalIfKnown(s.version.WriteID, c.Result.WriteID) && c.Result.Revision >= s.version.Revision
	case c.Verb == history.Delete:
		possible = possible && compatible(s.version, c.Result)
	}
	if c.Verb == history.Delete {
		after = register{}
	}
	return possible, after
}

// applyExternal applies a change that no recorded call made.
func (op *operation) applyExternal(s register) (bool, register) {
	after := register{present: op.after.Revision > 0, version: op.after}
	if op.before.Revision == 0 {
		return !s.present, after
	}
	return s.present && compatible(s.version, op.before), after
}

// mayRefuse reports whether a call can be refused in this state with its code.
func (s register) mayRefuse(c *history.Call) bool {
	switch c.Code {
	case codes.NotFound:
		return !s.present
	case codes.AlreadyExists:
		return s.present
	case codes.Aborted: // the condition is not met; for an absent object none is
		return !s.present || !s.mustMatch(c)
	}
	return true
}

// mayMatch reports whether the state can meet the conditions of a call. Unknown fields match any
// condition.
func (s register) mayMatch(c *history.Call) bool {
	return (c.IfUID == "" || equalIfKnown(s.version.UID, c.IfUID)) &&
		(c.IfRevision == 0 || s.version.Revision == 0 || s.version.Revision == c.IfRevision)
}

// mustMatch reports whether the state is known to meet the conditions of a call.
func (s register) mustMatch(c *history.Call) bool {
	return (c.IfUID == "" || s.version.UID == c.IfUID) && (c.IfRevision == 0 || s.version.Revision == c.IfRevision)
}

// compatible reports whether the known fields of two versions are equal.
func compatible(a, b history.Version) bool {
	return equalIfKnown(a.UID, b.UID) && equalIfKnown(a.WriteID, b.WriteID) && (a.Revision == 0 || b.Revision == 0 || a.Revision == b.Revision)
}

// equalIfKnown reports whether two values are equal or at least one is unknown.
func equalIfKnown(a, b string) bool { return a == "" || b == "" || a == b }

// String returns the operation on one line.
func (op *operation) String() string {
	c := op.call
	if c == nil {
		return fmt.Sprintf("external change of version %d to %d", op.before.Revision, op.after.Revision)
	}
	text := fmt.Sprintf("%s %s by %s", c.Verb, c.WriteID, c.Client)
	if c.IfUID != "" || c.IfRevision > 0 {
		text += fmt.Sprintf(" (if uid %q, version %d)", c.IfUID, c.IfRevision)
	}
	switch c.Outcome {
	case history.OK:
		text += fmt.Sprintf(": version %d of %s", c.Result.Revision, c.Result.UID)
	case history.Refused:
		text += fmt.Sprintf(": refused, %s", c.Code)
	default:
		text += ": unknown"
	}
	return text
}
