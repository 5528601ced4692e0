package accesslog

import (
	"reflect"
	"testing"
	"time"
)

// TestTargetsCompareEveryField changes one field after the other. If the comparison left a field out, the log of a
// service would keep its former files or lines after a change of the annotation.
func TestTargetsCompareEveryField(t *testing.T) {
	other := Target{
		Namespace: "default", Service: "web", Directory: "a", Prefix: "b", Interval: time.Hour, Format: JSON, Tags: map[string]string{"a": "b"},
	}
	from := reflect.ValueOf(other)
	for i := range from.NumField() {
		field := from.Type().Field(i).Name
		if from.Field(i).IsZero() {
			t.Errorf("%s has no value in this test", field)
		}
		var one Target
		reflect.ValueOf(&one).Elem().Field(i).Set(from.Field(i))
		if one.Equal(Target{}) || !one.Equal(one) {
			t.Errorf("a difference in %s is not noticed", field)
		}
	}
}
