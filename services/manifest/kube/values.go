package kube

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Labels of nodes.
const (
	LabelHostname     = "kubernetes.io/hostname"
	LabelTopologyZone = "topology.kubernetes.io/zone"
)

// Time is a time of whole seconds. The zero time is written as null.
type Time struct{ time.Time }

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) { return formatTime(t.Time, time.RFC3339) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(data []byte) error { return parseTime(data, time.RFC3339, &t.Time) }

// MicroTime is a time of whole microseconds.
type MicroTime struct{ time.Time }

// rfc3339Micro always has six digits after the second.
const rfc3339Micro = "2006-01-02T15:04:05.000000Z07:00"

// MarshalJSON implements json.Marshaler.
func (t MicroTime) MarshalJSON() ([]byte, error) { return formatTime(t.Time, rfc3339Micro) }

// UnmarshalJSON implements json.Unmarshaler.
func (t *MicroTime) UnmarshalJSON(data []byte) error { return parseTime(data, rfc3339Micro, &t.Time) }

func formatTime(t time.Time, layout string) ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC().Format(layout))
}

func parseTime(data []byte, layout string, to *time.Time) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if text == nil {
		*to = time.Time{}
		return nil
	}
	parsed, err := time.Parse(layout, *text)
	if err != nil {
		return err
	}
	*to = parsed.Local()
	return nil
}

// IntOrString is a number or the name of a port.
type IntOrString struct {
	Number int32
	Text   string // if it is not empty, Number is 0
	isText bool   // tells an empty text from the number 0
}

// IsText reports whether the value is a text.
func (v IntOrString) IsText() bool { return v.isText || v.Text != "" }

// MarshalJSON implements json.Marshaler.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.IsText() {
		return json.Marshal(v.Text)
	}
	return json.Marshal(v.Number)
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *IntOrString) UnmarshalJSON(data []byte) error {
	*v = IntOrString{isText: data[0] == '"'}
	if v.isText {
		return json.Unmarshal(data, &v.Text)
	}
	return json.Unmarshal(data, &v.Number)
}

// Quantity is an amount such as 500m or 64Mi, as it is written. Portolan does no arithmetic with it.
type Quantity string

var quantity = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$`)

// UnmarshalJSON implements json.Unmarshaler.
func (q *Quantity) UnmarshalJSON(data []byte) error {
	text := string(data)
	switch {
	case text == "null":
		text = ""
	case data[0] == '"':
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		text = strings.TrimSpace(text)
		fallthrough
	default:
		if !quantity.MatchString(text) {
			return fmt.Errorf("must be a quantity such as 2, 500m or 64Mi, not %q", text)
		}
	}
	*q = Quantity(text)
	return nil
}
