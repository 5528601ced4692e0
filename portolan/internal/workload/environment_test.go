package workload

import (
	"slices"
	"testing"
)

func TestProgramsGetNoCredentials(t *testing.T) {
	got := withoutCredentials([]string{
		"PATH=/bin", "PORTOLAN_CERTS=/certs", "PORTOLAN_TLS_KEY=/k", "PORTOLAN_FUTURE_TOKEN=x", "PORTOLAN_SERVER=r:7400",
	})
	if want := []string{"PATH=/bin", "PORTOLAN_SERVER=r:7400"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDiscoveryVariables checks that the caller's variables have precedence over the variables of services,
// except for variables that are withheld from the program.
func TestDiscoveryVariables(t *testing.T) {
	environment := withoutCredentials([]string{"WEB_SERVICE_HOST=mine", "PORTOLAN_SERVICE_HOST=stale", "PORTOLAN_SERVER=r:7400"})
	got := appendUnset(environment, []string{"WEB_SERVICE_HOST=10.96.0.1", "PORTOLAN_SERVICE_HOST=10.96.0.2", "PORTOLAN_SERVER=tcp://x", "DB_SERVICE_HOST=10.96.0.3"})
	want := []string{"WEB_SERVICE_HOST=mine", "PORTOLAN_SERVER=r:7400", "PORTOLAN_SERVICE_HOST=10.96.0.2", "DB_SERVICE_HOST=10.96.0.3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
