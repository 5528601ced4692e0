package balancer

import (
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
)

// everyName returns all names of the table, and two that are unknown.
func everyName() []string {
	names := []string{Prefix + "colour", awsPrefix + "colour"}
	for name := range known {
		if name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// maxMessage is the largest length of a problem's message in bytes.
const maxMessage = 2 << 10

// checkParse checks that the settings of any service can be used, and that parsing is repeatable.
func checkParse(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, svc *corev1.Service,
) {
	t.Helper()
	before := svc.CloneVT()
	s, problems := Parse(svc)
	again, same := Parse(svc)
	if !reflect.DeepEqual(s, again) || !slices.Equal(problems, same) || !svc.EqualVT(before) {
		t.Fatalf("%v: parsed twice it is\n%+v %v\n%+v %v", svc, s, problems, again, same)
	}
	c := s.Check
	switch {
	case c.Timeout <= 0 || c.Timeout >= c.Interval || c.Interval < leastCheck || c.Interval > mostCheck,
		c.Healthy < 2 || c.Healthy > 10 || c.Unhealthy < 2 || c.Unhealthy > 10 || c.Port < 0 || c.Port > 65535,
		c.Protocol >= CheckHTTP && c.Path == "",
		s.IdleTimeout < time.Second || s.IdleTimeout > 4000*time.Second,
		s.Drain.Enabled && s.Drain.Timeout <= 0,
		s.AccessLog.Interval != 5*time.Minute && s.AccessLog.Interval != time.Hour,
		s.ProxyProtocol != ProxyNone && s.BackendProtocol.IsHTTP(),
		len(s.Certificates) > 0 && !s.TLS:
		t.Fatalf("%v has the settings %+v", svc, s)
	}
	if _, ok := PolicyOf(s.TLSPolicy); !ok {
		t.Fatalf("%v has the policy %q", svc, s.TLSPolicy)
	}
	for _, p := range problems {
		if _, has := svc.GetMetadata().GetAnnotations()[p.Annotation]; !has || p.Message == "" || len(p.Message) > maxMessage {
			t.Fatalf("%v has the problem %+v", svc, p)
		}
	}
	if asks := Internal(svc) != ""; asks != s.Internal {
		t.Fatalf("%v: internal is %v and %v", svc, asks, s.Internal)
	}
}

// TestParseAnything draws services with any annotations of the table, and values that some of them take.
func TestParseAnything(t *testing.T) {
	names := everyName()
	values := []string{
		"", "true", "false", "*", "v2", "tcp", "ssl", "http", "https", "0", "1", "2", "5", "10", "60", "300", "4000", "100ms", "2s", "5m", "1h",
		"web", "443,web", "secret/a,b", "arn:x:y/z", "10.0.0.0/8", "/healthz", "a=1,b", "nlb", "Internal", "private", "modern", ",", "..",
	}
	rapid.Check(t, func(t *rapid.T) {
		svc := service()
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 12, rapid.ID).Draw(t, "names") {
			svc.Metadata.Annotations[name] = rapid.OneOf(rapid.SampledFrom(values), rapid.String()).Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "drain") {
			seconds := rapid.Int32Range(0, 86400).Draw(t, "seconds")
			svc.Spec.DrainTimeoutSeconds = &seconds
		}
		checkParse(t, svc)
	})
}

// TestTheOwnNameDecides checks that aliases have no effect beside Portolan's own name.
func TestTheOwnNameDecides(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SampledFrom(table).Filter(func(a Annotation) bool { return a.Name != "" && len(a.Aliases) > 0 }).Draw(t, "row")
		alone := service(row.Name, rapid.SampledFrom([]string{"true", "false", "7", "20", "web", "http", "v2", "/x", "a=b"}).Draw(t, "value"))
		both := alone.CloneVT()
		for _, alias := range row.Aliases {
			both.Metadata.Annotations[alias.Name] = rapid.SampledFrom([]string{"true", "8", "60", "*", "tcp", "nonsense!"}).Draw(t, "other")
		}
		s, problems := Parse(alone)
		if got, others := Parse(both); !reflect.DeepEqual(got, s) || !slices.Equal(others, problems) {
			t.Fatalf("%v is\n%+v %v\nand with aliases\n%+v %v", alone, s, problems, got, others)
		}
	})
}

// FuzzParse gives two annotations of the table any values.
func FuzzParse(f *testing.F) {
	names := everyName()
	for i := range names {
		f.Add(i, "true", i+1, "10")
	}
	f.Fuzz(func(t *testing.T, first int, value string, second int, other string) {
		at := func(i int) string { return names[uint(i)%uint(len(names))] }
		checkParse(t, service(at(first), value, at(second), other))
	})
}

// TestUnknownNamesAreReportedInPart has more unknown annotations than are reported.
func TestUnknownNamesAreReportedInPart(t *testing.T) {
	svc := service()
	for i := range 3 * maxUnknown {
		svc.Metadata.Annotations[Prefix+"x-"+strconv.Itoa(i)] = ""
	}
	if _, problems := Parse(svc); len(problems) != maxUnknown {
		t.Errorf("%d problems, want %d", len(problems), maxUnknown)
	}
}
