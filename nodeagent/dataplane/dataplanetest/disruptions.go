package dataplanetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Restart ends the plane's process and starts the next one, which takes over the state that it
// finds and gets the remaining changes.
type Restart struct{}

func (Restart) run(w *scenarioRun) error {
	w.rig.Restart(w.t)
	found, err := w.rig.Plane().State(w.t.Context())
	if err != nil {
		return err
	}
	if steps := plan.Diff(found, w.state); w.traits.Outlives && len(steps) > 1 {
		return fmt.Errorf("the next process finds a difference: %v", steps) // the sources are always set again
	}
	want := w.state
	w.state = found
	return w.program(want)
}

// Outlives uses a connection that was opened before a restart.
type Outlives struct{ Conn string }

func (a Outlives) run(w *scenarioRun) error {
	if w.traits.Outlives {
		return Continue{Conn: a.Conn}.run(w)
	}
	return Broken{Conn: a.Conn}.run(w)
}

// RestartsUnderLoad restarts the plane again and again, each time with a change, while clients
// connect. No client may notice, unless forwarding ends with the process.
type RestartsUnderLoad struct{ Programs []Program }

func (a RestartsUnderLoad) run(w *scenarioRun) error {
	var do []Action
	for _, p := range a.Programs {
		do = append(do, Restart{}, p)
	}
	if w.traits.Outlives {
		return UnderLoad{From: []ClientLocation{Inside, Node, Outside}, Do: do}.run(w)
	}
	for _, action := range do {
		if err := action.run(w); err != nil {
			return err
		}
	}
	return AskAmong{Clients: 1, Times: 1, AtLeast: 1}.run(w)
}

// Cleanup removes everything that the plane has left.
type Cleanup struct{}

func (Cleanup) run(w *scenarioRun) error {
	if err := w.rig.Cleanup(w.t); err != nil {
		return err
	}
	w.state = &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}
	return nil
}

// Damage removes the state that the plane has set up, without the plane's knowledge, and repairs it
// as an audit does.
type Damage struct{}

func (Damage) run(w *scenarioRun) error {
	w.rig.Damage(w.t)
	return w.repair()
}

// Altered changes the state at a frontend, without the plane's knowledge, and repairs it as an audit does, of the
// same process or of the next one.
type Altered struct {
	Frontend string
	Restart  bool
}

func (a Altered) run(w *scenarioRun) error {
	w.rig.Alter(w.t, w.frontend(a.Frontend))
	if a.Restart {
		w.rig.Restart(w.t)
	}
	return w.repair()
}

// repair reads the plane back, and brings it to the last state that was programmed.
func (w *scenarioRun) repair() error {
	found, err := w.rig.Plane().State(w.t.Context())
	if err != nil {
		return err
	}
	want := w.state
	w.state = found
	return w.program(want)
}

// Stop ends a backend without a change of the plan.
type Stop struct{ Backend int }

func (a Stop) run(w *scenarioRun) error {
	w.backends[a.Backend].stop()
	return nil
}

// OccupyFrontend gives a frontend to another program.
type OccupyFrontend struct {
	Frontend string
	// Exposure says which address it gets. The zero value is one of the plane's ranges.
	Exposure plan.Exposure
}

func (a OccupyFrontend) run(w *scenarioRun) error {
	w.intact = append(w.intact, w.rig.Occupy(w.t, w.frontendOf(a.Frontend, a.Exposure, w.v6)))
	return nil
}

// Intact checks that the state of other programs is unchanged.
type Intact struct{}

func (Intact) run(w *scenarioRun) error {
	for _, look := range w.intact {
		if err := look(); err != nil {
			return err
		}
	}
	return nil
}

// ProgramOccupied programs a server at a frontend of another program, and other servers. A plane
// with the trait Claims must report it and leave the frontend to the other program.
type ProgramOccupied struct {
	Frontend string
	Weights  Weights
	Others   Program
}

func (a ProgramOccupied) run(w *scenarioRun) error {
	want := w.servers(append(a.Others[:len(a.Others):len(a.Others)], Server{Frontend: a.Frontend, Weights: a.Weights}))
	if !w.traits.Claims {
		return w.program(want)
	}
	failed := w.apply(want)
	key := plan.Key{Frontend: w.frontend(a.Frontend)}
	if f, ok := failed[key.Frontend]; len(failed) != 1 || !ok || f.Remedy == "" {
		return fmt.Errorf("failures %+v, want one about %s, with a remedy", failed, key)
	}
	if w.rig.Plane().Programmed(key) != nil {
		return fmt.Errorf("%s counts as programmed", key)
	}
	delete(w.state.Servers, key)
	return w.readBack(w.state)
}

// InvalidBackends programs a server with usable backends and with invalid ones, at port 0 and of
// the other family. The invalid ones must be reported and must not keep the others from serving.
type InvalidBackends struct{ Weights Weights }

func (a InvalidBackends) run(w *scenarioRun) error {
	state := w.servers([]Server{{Weights: a.Weights}})
	key := plan.Key{Frontend: w.frontend("")}
	good := state.Servers[key]
	bad := *good
	zero := netip.AddrPortFrom(good.Reals[0].Addr.Addr().Prev(), 0)
	other := netip.MustParseAddrPort("[fd00::1]:80")
	if w.v6 {
		other = netip.MustParseAddrPort("198.51.100.1:80")
	}
	for _, addr := range []netip.AddrPort{zero, other} {
		bad.Reals = append(bad.Reals, plan.RealServer{Addr: addr, Weight: 1})
	}
	sortReals(bad.Reals)
	w.state.Sources = w.rig.Sources()
	changes := Changes(&bad)
	changes.Sources = &w.state.Sources
	failed := w.rig.Plane().Apply(w.t.Context(), changes)
	if len(failed) != 1 || failed[0].Frontend != key.Frontend || !errors.Is(failed[0].Err, dataplane.ErrNotSupported) || failed[0].Remedy == "" {
		return fmt.Errorf("failures %+v, want one that is not supported, with a remedy", failed)
	}
	for _, addr := range []netip.AddrPort{zero, other} {
		one := *good
		one.Reals = append(slices.Clone(good.Reals), plan.RealServer{Addr: addr, Weight: 1})
		sortReals(one.Reals)
		failed := w.rig.Plane().Apply(w.t.Context(), Changes(&one))
		if len(failed) != 1 || !errors.Is(failed[0].Err, dataplane.ErrNotSupported) {
			return fmt.Errorf("backend %s: failures %+v", addr, failed)
		}
	}
	w.state.Servers[key] = good
	if err := w.inForce(good, false); err != nil {
		return err
	}
	return w.readBack(w.state)
}

// refusesProtocol checks that a server of an unsupported protocol is reported.
func (w *scenarioRun) refusesProtocol() error {
	key := plan.Key{Frontend: w.frontend("")}
	failed := w.rig.Plane().Apply(w.t.Context(), Changes(&plan.VirtualServer{Key: key}))
	if len(failed) != 1 || !errors.Is(failed[0].Err, dataplane.ErrNotSupported) || failed[0].Remedy == "" {
		return fmt.Errorf("failures %+v, want one that is not supported, with a remedy", failed)
	}
	if w.rig.Plane().Programmed(key) != nil {
		return errors.New("it counts as programmed")
	}
	return nil
}

// UnderLoad runs actions while some clients keep connecting and others keep using their
// connections. None may fail.
type UnderLoad struct {
	Frontend string
	From     []ClientLocation
	// Swaps is set if schedulers change.
	Swaps bool
	Do    []Action
}

// loadEvery is the time between connections. It keeps the clients from using up the machine and its
// ports.
const loadEvery = 5 * time.Millisecond

func (a UnderLoad) run(w *scenarioRun) error {
	at := w.frontend(a.Frontend).Addr
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	var clients sync.WaitGroup
	failed := make(chan error, 2*len(a.From))
	warm := make(chan struct{}, 2*len(a.From))
	for i, from := range a.From {
		connect := w.keepConnecting
		if a.Swaps && w.traits.SwapsGap {
			connect = w.keepTrying
		}
		for _, work := range []func(context.Context, Client, netip.AddrPort, func()) error{connect, w.keepUsing} {
			clients.Go(func() {
				if err := work(ctx, Client{from, 100 + i}, at, func() { warm <- struct{}{} }); err != nil {
					failed <- err
				}
			})
		}
	}
	err := a.act(w, warm, failed)
	cancel()
	clients.Wait()
	select {
	case lost := <-failed:
		return errors.Join(lost, err)
	default:
		return err
	}
}

// act waits until all clients have connected, and runs the actions.
func (a UnderLoad) act(w *scenarioRun, warm <-chan struct{}, failed chan error) error {
	for range cap(failed) {
		select {
		case <-warm:
		case err := <-failed:
			return err
		}
	}
	for _, step := range a.Do {
		if err := step.run(w); err != nil {
			return fmt.Errorf("%T%+v: %w", step, step, err)
		}
	}
	return nil
}

// keepTrying does the same as keepConnecting, but connections other than the last may be refused.
func (w *scenarioRun) keepTrying(ctx context.Context, c Client, to netip.AddrPort, warm func()) error {
	for ctx.Err() == nil {
		if err := w.keepConnecting(ctx, c, to, warm); err != nil && !refused(err) {
			return err
		}
		warm = func() {}
	}
	_, _, err := w.tryAt(c, to, patience)
	return err
}

// keepConnecting connects again and again, and at least once more after ctx ends.
func (w *scenarioRun) keepConnecting(ctx context.Context, c Client, to netip.AddrPort, warm func()) error {
	for n := 0; ; n++ {
		last := ctx.Err() != nil
		if _, _, err := w.tryAt(c, to, patience); err != nil {
			return fmt.Errorf("connection %d from %s: %w", n, c.From, err)
		}
		if last {
			return nil
		}
		if n == 0 {
			warm()
		}
		pause(ctx, loadEvery)
	}
}

// keepUsing uses one connection again and again.
func (w *scenarioRun) keepUsing(ctx context.Context, c Client, to netip.AddrPort, warm func()) error {
	conn, err := w.dial(c, to, patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	for n := 0; ; n++ {
		last := ctx.Err() != nil
		if _, _, err := w.identify(conn, patience); err != nil {
			return fmt.Errorf("use %d of the connection from %s: %w", n, c.From, err)
		}
		if last {
			return nil
		}
		if n == 0 {
			warm()
		}
		pause(ctx, loadEvery)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
