package app_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/app"
)

// untilDone returns a task that waits for its context to be done, and then returns the result of
// end.
func untilDone(name string, end func(context.Context) error) app.Task {
	return app.Task{Name: name, Run: func(ctx context.Context) error {
		<-ctx.Done()
		return end(ctx)
	}}
}

func failing(name string, err error) app.Task {
	return app.Task{Name: name, Run: func(context.Context) error { return err }}
}

var errBoom = errors.New("boom")

func TestFirstErrorEndsAllAndIsTheCause(t *testing.T) {
	ended := 0
	err := app.RunTasks(t.Context(),
		failing("bad", errBoom),
		untilDone("good", func(ctx context.Context) error {
			ended++
			if !errors.Is(context.Cause(ctx), errBoom) {
				t.Errorf("cause = %v", context.Cause(ctx))
			}
			return ctx.Err()
		}),
	)
	if !errors.Is(err, errBoom) || err.Error() != "bad: boom" {
		t.Errorf("got %v", err)
	}
	if ended != 1 {
		t.Error("RunTasks did not wait for the other task")
	}
}

func TestEchoesOfTheEndAreNoErrors(t *testing.T) {
	echoes := map[string]func(context.Context) error{
		"nil":    func(context.Context) error { return nil },
		"err":    func(ctx context.Context) error { return ctx.Err() },
		"cause":  context.Cause,
		"status": func(context.Context) error { return status.Error(codes.Canceled, "x") },
	}
	var tasks []app.Task
	for name, end := range echoes {
		tasks = append(tasks, untilDone(name, end))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := app.RunTasks(ctx, tasks...); err != nil {
		t.Errorf("ended from outside: %v", err)
	}
	if err := app.RunTasks(t.Context(), append(tasks, failing("bad", errBoom))...); err == nil || err.Error() != "bad: boom" {
		t.Errorf("ended by a task: %v", err)
	}
}

func TestLaterErrorsAreKept(t *testing.T) {
	later := errors.New("cannot flush")
	err := app.RunTasks(t.Context(),
		untilDone("second", func(context.Context) error { return later }),
		failing("first", errBoom),
	)
	if err == nil || err.Error() != "first: boom\nsecond: cannot flush" {
		t.Errorf("got %v", err)
	}
}

func TestFinishedTaskEndsNothing(t *testing.T) {
	finished := make(chan struct{})
	err := app.RunTasks(t.Context(),
		app.Task{Name: "short", Run: func(context.Context) error { close(finished); return nil }},
		app.Task{Name: "long", Run: func(ctx context.Context) error {
			<-finished
			return ctx.Err() // still nil
		}},
	)
	if err != nil {
		t.Error(err)
	}
}

func TestCanceledBeforeTheEndIsAnError(t *testing.T) {
	err := app.RunTasks(t.Context(), failing("odd", context.Canceled))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the error of a task that gave up by itself", err)
	}
}

func TestPanicIsAnErrorWithItsStack(t *testing.T) {
	err := app.RunTasks(t.Context(),
		app.Task{Name: "bad", Run: func(context.Context) error { panic("ouch") }},
		untilDone("good", func(ctx context.Context) error { return ctx.Err() }),
	)
	if err == nil || !strings.HasPrefix(err.Error(), "bad: panic: ouch\n") || !strings.Contains(err.Error(), "tasks_test.go") {
		t.Errorf("got %v", err)
	}
}
