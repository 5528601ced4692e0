package kubeapi

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Values that differ by nature, such as a UID, are recorded as placeholders: <uid 1>. The same value has
// the same placeholder everywhere in a file, so that the identity of values is compared. Placeholders
// without a number stand for any value of their class.

// classes are the classes of placeholders, with the form of their values.
var classes = map[string]string{
	"uid":      `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	"time":     `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`,
	"version":  `\d+`,
	"ip":       `10\.96\.\d+\.\d+`,
	"port":     `3[0-2]\d{3}`,
	"suffix":   `[a-z0-9]{5,10}`,
	"continue": `[^"]+`,
	"age":      `\d+(?:ms|s)`,
}

var (
	uidForm     = regexp.MustCompile(`\b` + classes["uid"] + `\b`)
	timeForm    = regexp.MustCompile(`\b` + classes["time"] + `\b`)
	ipForm      = regexp.MustCompile(`\b` + classes["ip"] + `\b`)
	versionText = regexp.MustCompile(`((?:resource version|current): )\d+`)
	ageForm     = regexp.MustCompile(`^"` + classes["age"] + `"$`)
	placeholder = regexp.MustCompile(`"?<([a-z]+)( \d+)?>"?`)
)

// namer replaces values by placeholders while a file is recorded.
type namer struct {
	names map[string]string // placeholders by class and value
	count map[string]int
}

func newNamer() *namer { return &namer{names: map[string]string{}, count: map[string]int{}} }

func (n *namer) name(class, value string) string {
	key := class + " " + value
	if n.names[key] == "" {
		n.count[class]++
		n.names[key] = fmt.Sprintf("<%s %d>", class, n.count[class])
	}
	return n.names[key]
}

// replace replaces the values in the fields of an answer.
func (n *namer) replace(fields answerFields) {
	for _, path := range fields.paths() {
		fields[path] = n.replaced(fields, path)
	}
}

func (n *namer) replaced(fields answerFields, path string) string {
	value := fields[path]
	_, inItems := fields["items"]
	isList := inItems || fields["items[0].metadata.name"] != "" || strings.HasSuffix(fields["kind"], `List"`) || fields["kind"] == `"Table"`
	last := path[strings.LastIndex(path, ".")+1:]
	switch {
	case value == `""`:
		return value
	case path == "metadata.resourceVersion" && isList, strings.HasPrefix(path, "events[") && fields[strings.Split(path, ".")[0]+".type"] == `"BOOKMARK"` && last == "resourceVersion":
		return `"<version>"`
	case last == "resourceVersion":
		return `"` + n.name("version", strings.Trim(value, `"`)) + `"`
	case path == "metadata.continue":
		return `"<continue>"`
	case (last == "nodePort" || last == "healthCheckNodePort") && len(value) == 5:
		return `"` + n.name("port", value) + `"`
	case strings.Contains(path, "cells[") && ageForm.MatchString(value):
		return `"<age>"`
	}
	value = uidForm.ReplaceAllStringFunc(value, func(uid string) string { return n.name("uid", uid) })
	value = ipForm.ReplaceAllStringFunc(value, func(ip string) string { return n.name("ip", ip) })
	value = timeForm.ReplaceAllStringFunc(value, func(text string) string {
		if when, err := time.Parse(time.RFC3339, text); err != nil || time.Since(when).Abs() > time.Hour {
			return text // the client sent it
		}
		return "<time>"
	})
	value = versionText.ReplaceAllString(value, "${1}<version>")
	return n.generated(fields, path, value)
}

// generated replaces the random end of a name that the server made.
func (n *namer) generated(fields answerFields, path, value string) string {
	prefix := strings.Trim(fields[strings.TrimSuffix(path, "name")+"generateName"], `"`)
	text := strings.Trim(value, `"`)
	if !strings.HasSuffix(path, "metadata.name") || prefix == "" || !strings.HasPrefix(text, prefix) {
		return value
	}
	return `"` + prefix + n.name("suffix", strings.TrimPrefix(text, prefix)) + `"`
}

// values are the values for the placeholders of a file, as they occur in the answers of another server.
type values struct {
	of     map[string]string // by placeholder
	called map[string]string // placeholders by class and value
}

func newValues() *values { return &values{map[string]string{}, map[string]string{}} }

// match reports whether a field is the wanted one, if the placeholders stand for their values. The first
// value of a placeholder becomes its value.
func (v *values) match(want, have string) bool {
	found := placeholder.FindAllStringSubmatchIndex(want, -1)
	if found == nil {
		return want == have
	}
	var pattern strings.Builder
	var names []string
	end := 0
	for _, at := range found {
		begin, stop := at[0], at[1]
		class := want[at[2]:at[3]]
		form, known := classes[class]
		if !known {
			continue
		}
		// Quotes around a whole placeholder are left out, because the value may be a number.
		whole := begin == 0 && stop == len(want)
		if !whole {
			begin, stop = at[2]-1, stop-len(want[:stop])+len(strings.TrimSuffix(want[:stop], `"`))
		}
		pattern.WriteString(regexp.QuoteMeta(want[end:begin]))
		if whole {
			form = `"?(` + form + `)"?`
		} else {
			form = `(` + form + `)`
		}
		pattern.WriteString(form)
		names, end = append(names, strings.Trim(want[begin:stop], `"`)), stop
	}
	pattern.WriteString(regexp.QuoteMeta(want[end:]))
	parts := regexp.MustCompile("^" + pattern.String() + "$").FindStringSubmatch(have)
	if parts == nil {
		return false
	}
	for i, name := range names {
		if !v.bind(name, parts[i+1]) {
			return false
		}
	}
	return true
}

// bind gives a placeholder its value. It returns false if the placeholder has another value, or another
// placeholder of the same class has the value.
func (v *values) bind(name, value string) bool {
	class, _, numbered := strings.Cut(strings.Trim(name, "<>"), " ")
	if !numbered {
		return true
	}
	key := class + " " + value
	if v.of[name] == "" && v.called[key] == "" {
		v.of[name], v.called[key] = value, name
	}
	return v.of[name] == value && v.called[key] == name
}
