package spec

import (
	"fmt"
	"strings"

	"portolan.dev/services/kit/apierr"
)

// checks collects violations. It has a method for each kind of violation.
type checks struct{ found apierr.Violations }

func (c *checks) required(field, why string) {
	c.found.Add(field, apierr.ReasonRequired, "required: %s", why)
}

func (c *checks) invalid(field string, value any, format string, args ...any) {
	c.found.Add(field, apierr.ReasonInvalid, "invalid value %s: %s", quote(value), fmt.Sprintf(format, args...))
}

func (c *checks) forbidden(field, format string, args ...any) {
	c.found.Add(field, apierr.ReasonForbidden, "forbidden: %s", fmt.Sprintf(format, args...))
}

func (c *checks) duplicate(field string, value any) {
	c.found.Add(field, apierr.ReasonDuplicate, "duplicate value %s", quote(value))
}

func (c *checks) immutable(field string, value any) {
	c.found.Add(field, apierr.ReasonImmutable, "invalid value %s: may not change once set", quote(value))
}

func (c *checks) unsupported(field, value string, supported []string) {
	c.found.Add(field, apierr.ReasonNotSupported, "unsupported value %q: supported are %s", value, strings.Join(supported, ", "))
}

func (c *checks) tooMany(field string, have, limit int) {
	c.found.Add(field, apierr.ReasonTooLong, "has %d entries, at most %d are allowed", have, limit)
}

func (c *checks) tooLong(field string, limit int) {
	c.found.Add(field, apierr.ReasonTooLong, "may not be more than %d bytes", limit)
}

// syntax adds a violation if problem, the result of a syntax function for value, is not empty.
func (c *checks) syntax(field, value, problem string) {
	if problem != "" {
		c.invalid(field, value, "%s", problem)
	}
}

func (c *checks) add(v apierr.Violations) { c.found = append(c.found, v...) }

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

func quote(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%q", truncate(v))
	case fmt.Stringer:
		return fmt.Sprintf("%q", v)
	default:
		return fmt.Sprint(v)
	}
}

// truncate shortens a long text, so that messages stay readable.
func truncate(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}

// checkEnum adds a violation unless value is one of the enum's named values.
func checkEnum[E Enum](c *checks, field string, value E) bool {
	if _, ok := ParseEnum[E](EnumName(value)); ok {
		return true
	}
	c.unsupported(field, EnumName(value), EnumNames[E]())
	return false
}
