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

// Task is a part of a process that runs until ctx is done. A task that returns nil early has
// finished its work; the other tasks go on. If a task has a name, its errors are prefixed with it.
type Task struct {
	Name string
	Run  func(ctx context.Context) error
}

// RunTasks runs tasks until all have returned. The first error or panic cancels the context of the
// other tasks, with the error as its cause. The result joins all errors in the order in which they
// occurred. A task that returns the error of its cancelled context has not failed, so RunTasks
// returns nil if ctx ended all tasks.
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
			if err == nil || isContextError(ctx, err) {
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

// isContextError reports whether err only says that ctx is done.
func isContextError(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	return errors.Is(err, ctx.Err()) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.Cause(ctx)) || status.Code(err) == codes.Canceled
}
