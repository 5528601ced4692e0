package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The versions of the API that this client speaks. The fields that it reads are the same in all of them.
var oldestAPI, newestAPI = apiVersion{1, 24}, apiVersion{1, 52}

// Bounds of answers in bytes. An engine with 10,000 containers answers with some 20 MB.
const (
	maxList      = 64 << 20
	maxContainer = 8 << 20
	maxEvent     = 4 << 20
	maxSmall     = 64 << 10
)

// answerError is an error of one request. The connection may still be used for other requests: the engine
// answered with a failure or with something that cannot be read, or it did not answer this request in time.
type answerError struct{ error }

// Unwrap returns the wrapped error.
func (e *answerError) Unwrap() error { return e.error }

// statusError is an answer of the engine with a status other than 200.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the engine answers %d: %s", e.code, e.message)
}

// client sends requests to the engine at a unix socket.
type client struct {
	socket  string
	http    *http.Client
	timeout time.Duration // of every request except events, which has none
	metrics *metrics
}

func newClient(socket string, timeout time.Duration, m *metrics) *client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxSmall,
	}
	return &client{socket: socket, timeout: timeout, metrics: m, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// connect agrees with the engine on a version of the API.
func (c *client) connect(ctx context.Context) (*engine, error) {
	var has engineVersion
	if err := c.get(ctx, "version", "/version", maxSmall, &has); err != nil {
		return nil, err
	}
	version, err := negotiate(has)
	if err != nil {
		return nil, err
	}
	return &engine{client: c, prefix: "/v" + version.String()}, nil
}

// close closes idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// get makes a request and decodes its answer into result, unless result is nil. An answer of more than most
// bytes is an error.
func (c *client) get(ctx context.Context, call, path string, most int64, result any) error {
	err := c.ask(ctx, path, most, result)
	if isMissing(err) {
		c.metrics.count(call, nil) // a container may be removed at any time
	} else {
		c.metrics.count(call, err)
	}
	return err
}

func (c *client) ask(ctx context.Context, path string, most int64, result any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, &answerError{fmt.Errorf("no answer within %s", c.timeout)})
	defer cancel()
	response, err := c.open(ctx, path)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(http.MaxBytesReader(nil, response.Body, most))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		err = &answerError{fmt.Errorf("the answer is longer than %d bytes", most)}
	case err == nil && result != nil:
		if err = json.Unmarshal(text, result); err != nil {
			err = &answerError{fmt.Errorf("the answer cannot be read: %w", err)}
		}
	}
	return c.explain(ctx, path, err)
}

// open makes a request and returns the answer if its status is 200. The caller closes the body.
func (c *client) open(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request) // #nosec G704 -- the transport dials the socket only, whatever the address is
	if err != nil {
		return nil, c.explain(ctx, path, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxSmall))
	return nil, c.explain(ctx, path, &answerError{&statusError{code: response.StatusCode, message: messageOf(text)}})
}

// explain adds to an error the request, or a remedy if the cause is known.
func (c *client) explain(ctx context.Context, path string, err error) error {
	var inner *url.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.As(err, &inner): // url.Error would repeat the path
		err = inner.Err
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("there is no Docker engine at %s: start it, or name its socket with -docker-socket", c.socket)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("may not open %s: run as a member of the group that owns it (docker), or as root", c.socket)
	}
	return fmt.Errorf("GET %s of %s: %w", path, c.socket, err)
}

// messageOf returns the message of an answer with a status other than 200.
func messageOf(text []byte) string {
	var answer struct{ Message string }
	if json.Unmarshal(text, &answer) != nil || answer.Message == "" {
		answer.Message = strings.TrimSpace(string(text))
	}
	return shorten(answer.Message)
}

// engine is a client that uses the agreed version of the API.
type engine struct {
	*client
	prefix string
}

// ping checks that the engine answers.
func (e *engine) ping(ctx context.Context) error {
	return e.get(ctx, "ping", e.prefix+"/_ping", maxSmall, nil)
}

// list returns the IDs of the containers that run, are paused or wait to be restarted by the engine.
func (e *engine) list(ctx context.Context) ([]string, error) {
	var containers []listed
	if err := e.get(ctx, "list", e.prefix+"/containers/json", maxList, &containers); err != nil {
		return nil, err
	}
	var ids []string
	for _, one := range containers {
		if isID(one.ID) {
			ids = append(ids, one.ID)
		}
	}
	return ids, nil
}

// isMissing reports whether err is the answer that there is no such container.
func isMissing(err error) bool {
	var refused *statusError
	return errors.As(err, &refused) && refused.code == http.StatusNotFound
}

// inspect returns a container, or nil if there is none.
func (e *engine) inspect(ctx context.Context, id string) (*container, error) {
	var c container
	err := e.get(ctx, "inspect", e.prefix+"/containers/"+id+"/json", maxContainer, &c)
	switch {
	case isMissing(err):
		return nil, nil
	case err != nil:
		return nil, err
	case c.ID != id:
		return nil, &answerError{fmt.Errorf("the engine answers for container %q with %q", id, shorten(c.ID))}
	}
	return &c, nil
}

// eventActions are the actions that change a report. The stream of events is limited to them, because the
// engine sends several other events for each run of a health check.
var eventActions = []string{
	"start", "die", "kill", "stop", "pause", "unpause", "rename", "destroy", "health_status", "connect", "disconnect",
}

// events calls each for every event since a time, and for new events until ctx is done or the stream ends.
// It returns the reason of the end.
func (e *engine) events(ctx context.Context, since time.Time, each func(*event)) error {
	filters, err := json.Marshal(map[string][]string{"type": {"container", "network"}, "event": eventActions})
	if err != nil {
		return err
	}
	query := url.Values{"since": {strconv.FormatInt(since.Unix(), 10)}, "filters": {string(filters)}}
	path := e.prefix + "/events"
	response, err := e.open(ctx, path+"?"+query.Encode())
	e.metrics.count("events", err)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body := &io.LimitedReader{R: response.Body}
	for decoder := json.NewDecoder(body); ; {
		body.N = maxEvent // the decoder may have read a part of the event already
		var one event
		if err := decoder.Decode(&one); err != nil {
			return e.explain(ctx, path, fmt.Errorf("the stream of events ended: %w", err))
		}
		e.metrics.events.Inc()
		each(&one)
	}
}

// apiVersion is a version of the engine's API, such as 1.41.
type apiVersion struct{ major, minor int }

// String implements fmt.Stringer.
func (v apiVersion) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v apiVersion) less(other apiVersion) bool {
	if v.major != other.major {
		return v.major < other.major
	}
	return v.minor < other.minor
}

func parseVersion(text string) (apiVersion, error) {
	major, minor, _ := strings.Cut(text, ".")
	a, errMajor := strconv.ParseUint(major, 10, 8)
	b, errMinor := strconv.ParseUint(minor, 10, 16)
	if errMajor != nil || errMinor != nil {
		return apiVersion{}, fmt.Errorf("the engine's API has the version %q: want a version such as 1.41", shorten(text))
	}
	return apiVersion{int(a), int(b)}, nil
}

// negotiate returns the newest version that both the engine and this client speak.
func negotiate(has engineVersion) (apiVersion, error) {
	newest, err := parseVersion(has.APIVersion)
	if err != nil {
		return apiVersion{}, err
	}
	oldest := oldestAPI
	if has.MinAPIVersion != "" {
		if oldest, err = parseVersion(has.MinAPIVersion); err != nil {
			return apiVersion{}, err
		}
	}
	use := newest
	if newestAPI.less(use) {
		use = newestAPI
	}
	if use.less(oldest) || use.less(oldestAPI) {
		return apiVersion{}, fmt.Errorf("the engine's API has the versions %s to %s, and the registrar's %s to %s: update the older of both",
			oldest, newest, oldestAPI, newestAPI)
	}
	return use, nil
}

// shorten shortens a text from the engine, which may be of any length, for a message.
func shorten(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
