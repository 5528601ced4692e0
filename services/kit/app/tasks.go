package app

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Task is a part of a process that runs until ctx is done. Returning nil early
// means that its work is finished and ends nothing else. Its errors are prefixed
// with its name, if it has one.
type Task struct {
	Name string
	Run  func(ctx context.Context) error
}

// RunTasks runs tasks until all have returned. The first error, or a panic,
// cancels the context of the others, with the error as its cause. The result
// joins all errors, first the one that came first; that a task ended because
// its context did is not an error, so it is nil when ctx was what ended them.
func RunTasks(ctx context.Context, tasks ...Task) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		errs []error
		wg   sync.WaitGroup
	)
	for _, t := range tasks {
		wg.Go(func() {
			err := runTask(ctx, t)
			mu.Lock()
			defer mu.Unlock()
			if err == nil || endedBy(ctx, err) {
				return
			}
			if t.Name != "" {
				err = fmt.Errorf("%s: %w", t.Name, err)
			}
			errs = append(errs, err)
			cancel(err)
		})
	}
	wg.Wait()
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

func runTask(ctx context.Context, t Task) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return t.Run(ctx)
}

// endedBy tells whether err is no more than the echo of a context that is done.
func endedBy(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.Cause(ctx)) || status.Code(err) == codes.Canceled
}
